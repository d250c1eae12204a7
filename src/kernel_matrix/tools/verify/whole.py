"""Judge one candidate from what a user names: read the form, start the sandbox, run the cascade."""

from __future__ import annotations

import argparse

from kernel_matrix.base.errors import UserError
from kernel_matrix.tools.verify import sanitized, targets
from kernel_matrix.tools.verify.forms import read_candidate, read_task
from kernel_matrix.tools.verify.judge import Judge, Wish
from kernel_matrix.tools.verify.sandbox.server import Server
from kernel_matrix.tools.verify.tasks.task import UndecidedError, UnusableError, card
from kernel_matrix.tools.verify.verdict import UNDECIDED, Verdict


def wish_of(options: argparse.Namespace) -> Wish:
    """Return what the options ask for."""
    sanitize = sanitized.wanted(options, device_of(options))  # before the emulators are compiled
    return Wish(
        own_kernels=options.own_kernels,
        beyond=not options.quick,
        strict=options.strict,
        mutants=0 if options.quick else options.mutants,
        targets=targets.wanted(options),
        sanitize=sanitize,
        time=options.time,
        seconds=options.seconds,
    )


def device_of(options: argparse.Namespace) -> str:
    """Return the device that is named, or a card where one is."""
    if options.device:
        return str(options.device)
    return card()


def judged(options: argparse.Namespace) -> tuple[Verdict, dict[str, str]]:
    """Return the verdict, and the files of a program that shows a wrong result.

    Raises:
        UserError: the input cannot be used.
    """
    device = device_of(options)
    try:
        named = options.against or options.candidate
        task = read_task(named, options.inputs, device=device, fixed=options.fixed_sizes, candidate=options.candidate)
        source = read_candidate(options.candidate, task)
        wish = wish_of(options)
        server = Server(options.sandbox, device=device, readable=wish.readable)
        try:
            judge = Judge(task, server, wish)
            verdict = judge.verdict(source)
        finally:
            server.close()
    except UnusableError as error:
        raise UserError(f"{options.against or options.candidate}: {error}.") from error
    except UndecidedError as error:
        return Verdict(UNDECIDED, reason=str(error), device=device), {}
    files = judge.files(verdict, source)
    return verdict, files
