"""Judge KernelBench's tasks by themselves: each reference, written again under the name of a candidate.

    PYTHONPATH=src python tests/tools/verify/kernelbench.py REPOSITORY FOLDER [--levels 1 2] [--every 8 --compiled]

REPOSITORY is a clone, or the git directory of one. The tasks are read from its newest commit, and are in FOLDER alone.
No such candidate may be red. ``--every N`` takes every Nth task, and ``--compiled`` has PyTorch compile the candidate.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[3]
CALLED = '''

import torch as _torch


class {name}(_torch.nn.Module):
    """The reference, {how}."""

    def __init__(self, *arguments):
        super().__init__()
        self.real = {made}

    def forward(self, *inputs):
        return self.real(*inputs)
'''


def main() -> int:
    """Write the files, run the command, and print what is not right; return 1 where something is red."""
    parser = argparse.ArgumentParser()
    parser.add_argument("repository", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--levels", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--python")
    options = parser.parse_args()
    commit = _git(options.repository, "rev-parse", "HEAD").strip()
    lines = [line for level in options.levels for line in _written(options, level)]
    asked, told = options.folder / "asked.jsonl", options.folder / "told.jsonl"
    asked.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = [
        "verify",
        "--jsonl",
        str(asked),
        "--out",
        str(told),
        "--jobs",
        str(options.jobs),
        "--device",
        "cpu",
        "--quick",
    ]
    words += ["--python", options.python] if options.python else []
    subprocess.run([sys.executable, "-m", "kernel_matrix", *words], check=False)
    found = [json.loads(line) for line in told.read_text().splitlines()]
    print(
        f"{len(found)} of {len(lines)} tasks of commit {commit[:12]}: {dict(Counter(one['verdict'] for one in found))}"
    )
    for one in found:
        if one["verdict"] != "right":
            print(f"{Path(one['file']).name}: {one['verdict']}: {one['reason']}")
    return int(any(one["verdict"] in ("wrong", "hack") for one in found) or len(found) != len(lines))


def _written(options: argparse.Namespace, level: int) -> list[dict[str, str]]:
    folder = options.folder / f"level{level}"
    folder.mkdir(parents=True, exist_ok=True)
    names = _git(options.repository, "ls-tree", "--name-only", "HEAD", f"KernelBench/level{level}/").split()
    lines = []
    for place, name in enumerate(name for name in names if name.endswith(".py")):
        if place % options.every:
            continue
        text = _git(options.repository, "show", f"HEAD:{name}")
        reference = folder / Path(name).name
        candidate = folder / f"new_{Path(name).name}"
        reference.write_text(text)
        candidate.write_text(_compiled(text) if options.compiled else re.sub(r"\bModel\b", "ModelNew", text))
        lines.append({"candidate": str(candidate), "against": str(reference)})
    return lines


def _compiled(text: str) -> str:
    return text + CALLED.format(name="ModelNew", how="compiled", made="_torch.compile(Model(*arguments))")


def _git(repository: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(repository), *words], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
