"""Print the tables of the docs: what the command says of each kind of candidate, and what `torch.allclose` says.

    PYTHONPATH=tests/support python tests/tools/verify/table.py TOLD.jsonl ALLCLOSE.jsonl [--each]

TOLD are verdicts of `kernel-matrix verify --jsonl`, ALLCLOSE is the output of `allclose.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from candidates import FOLDERS, Candidate, candidates

TOLERANCES = ("0.01", "0.0001")
HEAD = "| kind | files | right | wrong | hack | not decided | 1e-2 | 1e-4 |"
RED = ("wrong", "hack")
Answers = Mapping[str, Mapping[str, object]]


def main() -> None:
    """Print a table for each folder, and with ``--each`` a line for each file."""
    told = {line["id"]: line for line in map(json.loads, Path(sys.argv[1]).read_text().splitlines())}
    near = {line["candidate"]: line for line in map(json.loads, Path(sys.argv[2]).read_text().splitlines())}
    for folder in FOLDERS:
        of_folder = [one for one in candidates(folder) if one.needs == "cpu"]
        print(f"\n{folder}: {len(of_folder)}\n\n{HEAD}\n|{' --- |' * 8}")
        for kind in sorted({one.kind for one in of_folder}):
            print(_row(kind, [one for one in of_folder if one.kind == kind], told, near))
        print(_row("all", of_folder, told, near))
        if "--each" in sys.argv:
            for one in of_folder:
                passes = near.get(str(one.path), {}).get("passes", {})
                verdict = told.get(one.name, {})
                print(one.name, verdict.get("verdict"), verdict.get("kind"), passes, verdict.get("reason"), sep=" | ")


def _row(kind: str, of_kind: Iterable[Candidate], told: Answers, near: Answers) -> str:
    names, files = [one.name for one in of_kind], [str(one.path) for one in of_kind]
    verdicts = [told.get(name, {}).get("verdict") for name in names]
    counts = [verdicts.count(word) for word in ("right", *RED, "not decided")]
    passed = [sum(bool(near.get(path, {}).get("passes", {}).get(one)) for path in files) for one in TOLERANCES]  # type: ignore[attr-defined]
    return f"| {' | '.join(map(str, [kind, len(files), *counts, *passed]))} |"


if __name__ == "__main__":
    main()
