"""Judge a kernel that nobody trusts, against the code that says what is right."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.numbers import above_zero, whole
from kernel_matrix.store import signing
from kernel_matrix.tools.sanitize import tools
from kernel_matrix.tools.verify import page, python
from kernel_matrix.tools.verify.batch import verdicts_of
from kernel_matrix.tools.verify.verdict import NOTHING

_UNUSABLE = 2
_VERDICT = Path("verify", "verdict.json")  # below the build folder
_NAMESPACE = "kernel-matrix-verdicts"


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
        "--mutants", type=whole(0), default=12, metavar="N", help="faults put into the candidate's text (12)"
    )
    parser.add_argument(
        "--seconds", type=above_zero, default=120, help="the CPU time of a call that compiles; a sixth of it else (120)"
    )
    _of_steps(parser)
    _of_answers(parser)
    parser.add_argument(
        "--sandbox", choices=("bubblewrap", "landlock"), default="", help="by default the best that works"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="", help="by default cuda where a card is")
    parser.add_argument("--python", metavar="PATH", help="the Python that has PyTorch; by default this one, or python3")
    parser.add_argument(
        "--build", type=Path, default=Path("build"), help="where the program of a counterexample is written (build)"
    )


def _of_steps(parser: argparse.ArgumentParser) -> None:
    """Add the options of the steps that a right candidate takes."""
    parser.add_argument(
        "--targets",
        nargs="+",
        metavar="TARGET",
        help="compile a right Triton kernel for these, or none (eight of two vendors)",
    )
    parser.add_argument(
        "--emulate", nargs="+", metavar="TARGET", help="and run it on emulators of these, or none (gfx942 sm_90)"
    )
    parser.add_argument(
        "--sanitize",
        nargs="+",
        metavar="TOOL",
        help="run a right one under these tools of compute-sanitizer on the card that is here, or none (four)",
    )
    parser.add_argument("--time", action="store_true", help="time it by the judge's clock, in runs that are checked")


def _of_answers(parser: argparse.ArgumentParser) -> None:
    """Add the options that say in which form the verdicts come."""
    parser.add_argument("--json", action="store_true", help="print the verdict as verdict.schema.json has it")
    parser.add_argument("--jsonl", type=Path, metavar="FILE", help="judge each line: {candidate, against}")
    parser.add_argument("--jobs", type=whole(1), default=1, help="how many candidates at a time (1)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="of --jsonl: the verdicts, which a second run goes on with"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="of --jsonl: write the verdicts as one HTML file")
    parser.add_argument(
        "--earlier", type=Path, nargs="+", default=[], metavar="FILE", help="of --page: verdicts on earlier versions"
    )
    parser.add_argument(
        "--sign", nargs="?", type=Path, const=Path(), metavar="KEY", help="sign the verdict with an SSH key (~/.ssh)"
    )
    parser.add_argument(
        "--cell", default="", help="in a project: the cell of its page that it belongs to (one of its own)"
    )


def main(options: argparse.Namespace) -> int:
    """Return 0 for right, 1 for wrong or a hack, 2 if the input cannot be used, 3 if nothing is decided."""
    if options.jsonl is None and (
        options.candidate is None or (options.against is None and not Path(options.candidate).is_dir())
    ):
        raise UserError(
            "verify needs a candidate and what it is judged against: verify candidate.py --against reference.py"
        )
    _check(options)
    key = _key(options)
    if python.is_here(options.python):
        python.one_thread()
        status = _judge(options)
        if python.is_instead():
            return status
    else:
        status = python.instead(options.python, sys.argv[1:])
    if status != _UNUSABLE or options.jsonl is not None:
        _hand_on(options, key)
    return status


def _check(options: argparse.Namespace) -> None:
    """Refuse what needs no PyTorch to be refused: its import takes seconds.

    Raises:
        UserError: a file is not there, or a tool is not known.
    """
    for name in (options.candidate, options.against):
        if name and ":" not in name and not Path(name).exists():
            raise UserError(f"{name}: it cannot be read: there is no such file or folder.")
    for name in options.sanitize or ():
        if name not in (*tools.OF_NVIDIA, NOTHING):
            raise unknown("--sanitize", "tool", name, tools.OF_NVIDIA)


def _judge(options: argparse.Namespace) -> int:
    if options.jsonl is None:
        return _one(options)
    from kernel_matrix.tools.verify.batch import batch

    return batch(options, print)


def _key(options: argparse.Namespace) -> Path | None:
    """Return the key that signs, if one is to: whoever cannot sign need not wait for the verdict."""
    if options.sign is None:
        return None
    key = signing.key_to_use(options.sign if options.sign.name else None)
    signing.fingerprint_of(key)
    return key


def _hand_on(options: argparse.Namespace, key: Path | None) -> None:
    """Make of the verdicts what is asked for: a page, a signature, a check of the project that is here."""
    told = verdicts_of(options) if options.jsonl is not None else options.build / _VERDICT
    if not told.is_file():
        return
    if options.page is not None and options.jsonl is not None:
        page.write(options.page, told, options.earlier)
        print(f"page: {options.page}", file=sys.stderr)
    if key is not None:
        made = told.with_name(f"{told.name}.sig")
        write_atomically(made, signing.sign(told.read_bytes(), key, _NAMESPACE))
        check = f"ssh-keygen -Y check-novalidate -n {_NAMESPACE} -s {made} < {told}"
        print(f"signed with {signing.fingerprint_of(key)}; who has both files checks it by: {check}", file=sys.stderr)
    if Path("matrix.yaml").is_file():
        from kernel_matrix.tools.verify import project

        for one in map(json.loads, told.read_text(encoding="utf-8").splitlines()):
            named = str(one.get("id") or one.get("file") or options.candidate)
            task = str(one.get("against") or options.against or "")
            cell = one.get("cell") or options.cell or project.own_cell(one, named, task)
            project.add(one, named, str(cell), options.build)


def _one(options: argparse.Namespace) -> int:
    """Judge one candidate, and print the verdict."""
    python.imported()
    from kernel_matrix.tools.verify import screen
    from kernel_matrix.tools.verify.whole import judged

    verdict, program = judged(options)
    told = options.build / _VERDICT
    folder = told.parent
    folder.mkdir(parents=True, exist_ok=True)
    if program:
        for name, text in program.items():
            write_atomically(folder / name, text)
        verdict.program = str(folder / "show.py")
    write_atomically(told, json.dumps(verdict.document()) + "\n")
    if options.json:
        print(json.dumps(verdict.document(), indent=1))
    else:
        for line in screen.lines(verdict):
            print(line)
    return verdict.status
