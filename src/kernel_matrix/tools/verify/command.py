"""Judge a kernel that nobody trusts, against the code that says what is right."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.tools.verify import python

_UNUSABLE = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: the candidate, the task, and what is asked of it."""
    parser.add_argument(
        "candidate", nargs="?", help="candidate.py, a folder, solution.json, or package.module:function"
    )
    parser.add_argument("--against", metavar="TASK", help="reference.py, a folder, definition.json, or module:function")
    parser.add_argument(
        "--inputs", metavar="MODULE:FUNCTION", help="of functions: what returns their arguments; else workloads.jsonl"
    )
    parser.add_argument("--own-kernels", action="store_true", help="PyTorch's operators may not compute")
    parser.add_argument("--fixed-sizes", action="store_true", help="the task is for its own sizes alone")
    parser.add_argument("--strict", action="store_true", help="also red: other strides, no rows, threads")
    parser.add_argument("--quick", action="store_true", help="leave out what the task does not ask, and mutants")
    parser.add_argument(
        "--mutants", type=int, default=12, metavar="N", help="faults put into the candidate's text (12)"
    )
    parser.add_argument(
        "--seconds", type=float, default=120, help="the CPU time of a call that compiles; a sixth of it else (120)"
    )
    parser.add_argument("--time", action="store_true", help="time it by the judge's clock, in runs that are checked")
    parser.add_argument("--json", action="store_true", help="print the verdict as verdict.schema.json has it")
    parser.add_argument("--jsonl", type=Path, metavar="FILE", help="judge each line: {candidate, against}")
    parser.add_argument("--jobs", type=int, default=1, help="how many candidates at a time (1)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="of --jsonl: the verdicts, which a second run goes on with"
    )
    parser.add_argument(
        "--sandbox", choices=("bubblewrap", "landlock"), default="", help="by default the best that works"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="", help="by default cuda where a card is")
    parser.add_argument("--python", metavar="PATH", help="the Python that has PyTorch; by default this one, or python3")
    parser.add_argument(
        "--build", type=Path, default=Path("build"), help="where the program of a counterexample is written (build)"
    )


def main(options: argparse.Namespace) -> int:
    """Return 0 for right, 1 for wrong or a hack, 2 if the input cannot be used, 3 if nothing is decided."""
    if not python.is_here(options.python):
        return python.instead(options.python, sys.argv[1:])
    python.one_thread()
    if options.jsonl is not None:
        from kernel_matrix.tools.verify.batch import batch

        return batch(options, print)
    if options.candidate is None or (options.against is None and not Path(options.candidate).is_dir()):
        raise UserError(
            "verify needs a candidate and what it is judged against: verify candidate.py --against reference.py"
        )
    return _one(options)


def _one(options: argparse.Namespace) -> int:
    """Judge one candidate, and print the verdict."""
    python.imported()
    from kernel_matrix.tools.verify import screen
    from kernel_matrix.tools.verify.whole import judged

    verdict, program = judged(options)
    if program:
        folder = options.build / "verify"
        for name, text in program.items():
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / name, text)
        verdict.program = str(folder / "show.py")
    if options.json:
        print(json.dumps(verdict.document(), indent=1))
    else:
        for line in screen.lines(verdict):
            print(line)
    return verdict.status
