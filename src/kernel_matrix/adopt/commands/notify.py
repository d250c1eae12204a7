"""Tell a webhook which lanes turned red between two runs, and which came back."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

_ADDRESS = "KERNEL_MATRIX_WEBHOOK"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which two runs, and where the page is."""
    parser.add_argument("before", type=Path, help="the site of the earlier run; it need not exist")
    parser.add_argument("now", type=Path, help="the site of the later run; it need not exist")
    parser.add_argument("--page", default="", metavar="URL", help="where the page is")


def main(options: argparse.Namespace) -> int:
    """Send one document to the address in KERNEL_MATRIX_WEBHOOK; 0 also if nobody takes it."""
    from kernel_matrix.adopt import sites, web  # the models of reports take long to import
    from kernel_matrix.adopt.webhook import message

    before, now = sites.read(options.before), sites.read(options.now)
    if before is None or now is None:
        print(f"notify: {options.now if before else options.before} has no page: nothing is compared")
        return 0
    document, address = message(before.report, now.report, options.page), os.environ.get(_ADDRESS, "")
    if document is None:
        print("notify: no lane turned red or came back")
        return 0
    print(document["text"])
    if not address:
        print(f"notify: {_ADDRESS} is not set: nobody is told")
        return 0
    try:
        web.again(lambda: web.ask("POST", address, document))
    except (web.RefusedError, web.UnreachableError) as error:  # the address is a secret, and stands in no message
        print(f"kernel-matrix: warning: the receiver of {_ADDRESS} did not take the message: {error}", file=sys.stderr)
    return 0
