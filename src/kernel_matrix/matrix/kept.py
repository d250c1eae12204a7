"""Results that need not be made again: nothing that they depend on has changed since, and none of them is red."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kernel_matrix.base.files import write_atomically
from kernel_matrix.config.reads import LOOSE, Checkout
from kernel_matrix.pipeline import Project
from kernel_matrix.store import names
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.registry import programs


@dataclass(frozen=True)
class Keeper:
    """The notes about result files that need not be made again, because they would come out the same."""

    project: Project
    machine: Machine

    def since(self, name: str, made_from: Sequence[str]) -> str:
        """Return when the results called ``name`` were made, or nothing if they cannot be kept.

        ``made_from`` is all that they depend on apart from the machine: what was read, and what the job was given.
        """
        try:
            note = json.loads(self._note(name).read_text(encoding="utf-8"))
            is_same = note["depends"] == self._dependencies(name, made_from) and self._now.has_loose(note[LOOSE])
            return str(note["started"]) if is_same else ""
        except (OSError, ValueError, KeyError):
            return ""

    def forget(self, name: str) -> None:
        """Take away the note about results of which something is red."""
        self._note(name).unlink(missing_ok=True)

    def remember(self, name: str, made_from: Sequence[str]) -> None:
        """Note what the results called ``name`` were made from. They have nothing red."""
        from kernel_matrix.store.write import facts_of  # pyarrow takes long to import

        facts = facts_of(self._result(name))
        depends = self._dependencies(name, made_from)
        note = {"started": facts["started"], "depends": depends, LOOSE: facts.get(LOOSE, "")}
        write_atomically(self._note(name), json.dumps(note, indent=1) + "\n")

    def _result(self, name: str) -> Path:
        path = names.result_of(self.project.results, name)
        if path is None:
            raise FileNotFoundError(f"there is no result of {name}")
        return path

    def _note(self, name: str) -> Path:
        return self.project.build / "kept" / f"{name}.json"

    def _dependencies(self, name: str, made_from: Sequence[str]) -> dict[str, object]:
        result = self._result(name)
        files = names.files_of(result).paths if names.is_table(result) else (result,)
        content = _digest(path.read_bytes() for path in files)
        return {**self._shared, "made_from": _digest(text.encode() for text in made_from), "result": content}

    @cached_property
    def _now(self) -> Checkout:
        return Checkout(self.project.matrix, self.project.root)

    @cached_property
    def _shared(self) -> dict[str, object]:
        """Return what every job depends on."""
        names = {*self.project.matrix.package.environment, "PATH"}
        tools = {program.name: shutil.which(program.command) or "" for program in programs()}
        for program in programs():
            names |= {*program.homes, program.variable}
        return {
            "machine": repr(self.machine),
            "cores": os.cpu_count(),
            "python": sys.version,
            "tools": tools,
            "variables": {name: os.environ.get(name, "") for name in sorted(names - {""})},
        }


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
