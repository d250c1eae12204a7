"""A checkout that stands for the real one, where a test says of results only by which commit they are."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_matrix.config.reads import Checkout

ANOTHER = "its job read another package"


class AtCommit(Checkout):
    """The checkout of a commit: the job of a result of another commit read another package.

    Of the ``others`` nothing differs. The axes and the other parts of a job's reading are always the same.
    """

    def __init__(self, commit: str, *others: str) -> None:
        object.__setattr__(self, "same", {commit, *others})
        object.__setattr__(self, "root", None)

    def difference(self, platform: str, toolchain: str, job: Mapping[str, str]) -> str:
        """Return what a job read otherwise, by its commit."""
        return "" if job.get("commit") in self.same else ANOTHER
