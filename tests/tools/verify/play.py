"""Play candidates through the command, and print what has another verdict than it must have.

PYTHONPATH=src:tests/support python tests/tools/verify/play.py OUT.jsonl PYTHON [PREFIX ...]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from candidates import candidates


def main() -> None:
    """Run the command once for those with the same options."""
    out, python, prefixes = Path(sys.argv[1]), sys.argv[2], tuple(sys.argv[3:])
    asked = [one for one in candidates() if one.needs == "cpu" and (not prefixes or one.name.startswith(prefixes))]
    told = []
    with tempfile.TemporaryDirectory() as folder:
        for options in sorted({one.options for one in asked}):
            lines, verdicts = Path(folder) / "asked.jsonl", Path(folder) / "told.jsonl"
            verdicts.unlink(missing_ok=True)
            lines.write_text("".join(one.line for one in asked if one.options == options))
            words = f"-m kernel_matrix verify --jsonl {lines} --out {verdicts} --jobs 2 --device cpu --python {python}"
            quick = [] if "--strict" in options else ["--quick"]
            subprocess.run([sys.executable, *words.split(), *options, *quick], check=False)
            told += verdicts.read_text().splitlines()
    out.write_text("\n".join(told) + "\n")
    found = {one["id"]: one for one in map(json.loads, told)}
    for one in asked:
        verdict = found.get(one.name, {"verdict": "lost", "reason": "", "kind": ""})
        said = {verdict["verdict"], *(["not decided"] if verdict.get("undecided") else [])}  # of the first line
        if not said & set(one.allowed):
            print(f"{one.name}: {verdict['verdict']} {verdict['kind']}: {verdict['reason'][:200]}")
    print(f"{len(found)} of {len(asked)}")


if __name__ == "__main__":
    main()
