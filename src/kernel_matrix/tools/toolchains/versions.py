"""The published versions of a package, and the ones among them that a user asks for."""

from __future__ import annotations

import json
from collections.abc import Sequence

from packaging.version import InvalidVersion, Version

from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError


def published(package: str) -> list[Version]:
    """Return the final versions that the configured index has for this Python and machine, oldest first.

    Raises:
        UserError: it has none, in the installer's words.
    """
    try:
        answer = json.loads(uv("tool", "run", "--quiet", "pip", "index", "versions", package, "--json").splitlines()[0])
    except (InstallError, ValueError, IndexError) as error:
        raise UserError(f"{package}: the index tells no versions of it.\n{error}") from None
    return sorted(version for text in answer["versions"] if not (version := Version(text)).is_prerelease)


def chosen(text: str, known: Sequence[Version]) -> list[Version]:
    """Return the versions that ``0.1.8..0.1.15``, ``0.1.8..`` or ``0.1.8,0.1.12`` names; a range holds both its ends.

    Raises:
        UserError: one of them was not published, or none is left.
    """
    names = [str(version) for version in known]
    if ".." not in text:
        for part in text.split(","):
            if part not in names:
                raise UserError(f"--versions {text}: {part} is not published.{did_you_mean(part, names)}")
        return [Version(part) for part in text.split(",")]
    first, _, last = text.partition("..")
    try:
        low, high = Version(first or "0"), Version(last or "99999")
    except InvalidVersion:
        raise UserError(f"--versions {text}: write it as 0.1.8..0.1.15, 0.1.8.. or 0.1.8,0.1.12.") from None
    inside = [version for version in known if low <= version <= high]
    if not inside:
        raise UserError(f"--versions {text}: no published version is in it. There are: {', '.join(names)}.")
    return inside
