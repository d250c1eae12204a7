"""Compile every kernel that a program launches, for every target, without a GPU and without matrix.yaml."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernel_matrix.base.errors import UserError, reason_of, unknown
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.numbers import above_zero, whole
from kernel_matrix.cli.options import print_dashboard
from kernel_matrix.results.states import Verdict
from kernel_matrix.tools.launches import card, shapes, simulators, versions
from kernel_matrix.tools.launches.invocation import invocation
from kernel_matrix.tools.launches.recording import Options
from kernel_matrix.tools.launches.study import Study, study
from kernel_matrix.tools.launches.targets import Target, emulated_targets, targets_named
from kernel_matrix.tools.sanitize.program import sanitized


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: what is compiled, for which targets, and within which limits."""
    parser.add_argument("--targets", nargs="+", default=[], metavar="TARGET", help="compile for these (sm_90 gfx942)")
    parser.add_argument(
        "--told", nargs="+", default=[], metavar="TARGET", help="what the program is told it runs on, one a vendor"
    )
    parser.add_argument("--configs", default="first", help="configurations of an autotuned launch: all, first or N")
    parser.add_argument("--launches", default="1", metavar="N", help="specialisations of each kernel: all or N (1)")
    _of_running(parser)
    parser.add_argument(
        "--compile-commands",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="take nvcc's commands of CMake too",
    )
    parser.add_argument(
        "--versions", metavar="NAME=V1,V2", help="do it with each version of a distribution (triton=3.6.0,3.7.1)"
    )
    parser.add_argument("--cases", type=Path, metavar="FILE", help="write the shapes of all calls, as cases")
    parser.add_argument("--jobs", type=whole(1), default=2, help="how many compilers work at a time (2)")
    parser.add_argument("--seconds", type=above_zero, default=150, help="the time of one compilation (150)")
    parser.add_argument("--memory", type=above_zero, default=8, help="the memory of one compilation, in GiB (8)")
    parser.add_argument("--package", default="", help="the name of the package in the dashboard")
    parser.add_argument("--build", type=Path, default=Path("build"), help="where everything is written (build)")
    parser.set_defaults(words=[])
    parser.epilog = "After -- stands the program: python calls.py, python setup.py build_ext, or pytest with options."


def _of_running(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the kernels also run."""
    parser.add_argument("--interpret", action="store_true", help="compute the kernels in an interpreter as well")
    parser.add_argument(
        "--emulate",
        default="",
        metavar="TARGETS",
        help="run the kernels on an emulator of these GPUs (gfx942,gfx1100,sm_90), and compare the numbers",
    )
    parser.add_argument(
        "--on",
        default="",
        metavar="DEVICE",
        help="run the kernels on this GPU too (cuda:0), several times, and compare",
    )
    parser.add_argument("--order", action="store_true", help="on the GPU also with their blocks in other orders")
    parser.add_argument(
        "--with",
        dest="simulator",
        default="",
        metavar="NAME",
        help=f"run them in a simulator of another project that is on PATH: {' or '.join(simulators.SIMULATORS)}",
    )
    parser.add_argument(
        "--sanitize",
        nargs="*",
        metavar="TOOL",
        help="run the program on this machine's NVIDIA GPU under compute-sanitizer's tools: all four, or these",
    )


def main(options: argparse.Namespace) -> int:
    """Return 1 if a launch does not compile, cannot be launched or is compared with nothing, or the program fails."""
    if options.sanitize is not None:
        return sanitized(options.words, options.sanitize, (options.build / "launches").resolve(), print)
    emulate = _emulated(options.emulate, options.simulator)
    gpu = _gpu(options)
    here = [gpu.target] if gpu else []
    targets = targets_named([*options.targets, *here, *emulate])
    files = (options.build / "simulator").resolve()
    chosen = Options(
        interpret=options.interpret,
        configurations=_number("--configs", options.configs),
        specialisations=_number("--launches", options.launches),
        jobs=options.jobs,
        seconds=options.seconds,
        memory_gib=options.memory,
        cache=options.build / "cache" / "launches",
        commands=_files(options.compile_commands),
        emulate=emulate,
        simulator=simulators.found(options.simulator, emulate, files) if options.simulator else None,
        card=gpu,
    )
    told, folder = [*reversed(emulate), *here, *options.told], (options.build / "launches").resolve()
    if options.versions:
        return _in_versions(options, targets, told, chosen, folder)
    done = study(options.words, targets, told, chosen, folder, options.package, print)
    _print_end(done)
    print(f"figures: {done.page}")
    if options.cases:
        write_atomically(options.cases, shapes.page(done.recordings, shlex.join(options.words)))
        print(f"shapes as cases: {options.cases}")
    return done.exit_status


def _in_versions(
    options: argparse.Namespace, targets: Sequence[Target], told: Sequence[str], chosen: Options, folder: Path
) -> int:
    """Do all of it with each version, every one in a folder of its own, and say since which one something differs."""
    name, numbers = versions.parsed(options.versions)
    call, status, results = invocation(options.words), 0, dict[str, Sequence[Verdict] | str]()
    for number in numbers:
        packages = versions.installed(call.python, name, number, folder / "packages")
        own = folder / "versions" / f"{name}-{number}"
        print(f"{name} {number}:")
        try:
            done = study(
                options.words, targets, told, replace(chosen, packages=(packages,)), own, options.package, print
            )
        except UserError as error:
            status, results[number] = 1, str(error)
            continue
        _print_end(done)
        status, results[number] = max(status, done.exit_status), done.verdicts
    page = folder / "versions.md"
    write_atomically(page, versions.page(name, call.text, results))
    for line in versions.lines(name, results):
        print(line)
    print(f"side by side: {page}")
    return status


def _print_end(done: Study) -> None:
    """Print where the dashboard is, and how many launches were to be compared and were not."""
    print_dashboard(done.dashboard)
    if done.not_compared:
        print(f"not compared: {done.not_compared} launches that ran on emulated targets; so this is no success")


def _gpu(options: argparse.Namespace) -> card.Card | None:
    """Return the GPU on which the kernels run too, if one is named.

    Raises:
        UserError: it is not there, or its target is not known; or blocks are to run in other orders on no GPU.
    """
    if options.on:
        return card.card_named(options.on, invocation(options.words).python, order=options.order)
    if options.order:
        raise UserError("--order: name the GPU on which the blocks run in other orders: --on cuda:0.")
    return None


def _emulated(text: str, simulator: str) -> tuple[str, ...]:
    """Return the targets that are emulated.

    Raises:
        UserError: the emulator or the simulator does not have one, or there is none for the simulator.
    """
    names = tuple(filter(None, re.split(r"[,\s]+", text)))
    targets = simulators.targets_of(simulator) if simulator else emulated_targets()
    if simulator and not names:
        raise UserError(f"--with {simulator}: name its targets too, such as --emulate {targets[0]}.")
    for name in names:
        if name not in targets:
            raise unknown("--emulate", f"target of {simulator or 'the emulator'}", name, targets)
    return names


def _files(paths: list[Path]) -> tuple[Path, ...]:
    """Return the files.

    Raises:
        UserError: one is not there, or is no list of commands.
    """
    for path in paths:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"--compile-commands {path}: it cannot be read: {reason_of(error)}.") from error
        if not isinstance(content, list) or not all(isinstance(one, dict) and "file" in one for one in content):
            raise UserError(f"--compile-commands {path}: this is no list of commands as CMake writes it.")
    return tuple(paths)


def _number(option: str, text: str) -> int | None:
    """Return the number that an option names; None for all.

    Raises:
        UserError: the text is neither a number above zero nor a word.
    """
    words = {"all": None, "first": 1}
    if text in words:
        return words[text]
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"{option} {text}: write all, or a number from 1.")
    return int(text)
