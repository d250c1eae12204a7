"""Say in one comment on a pull request what the change did to which vendor."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which two runs, and whose comment it is."""
    parser.add_argument("before", type=Path, help="the site of the run that is compared with; it need not exist")
    parser.add_argument("now", type=Path, help="the site of the change's run; it need not exist")
    parser.add_argument("--page", default="", metavar="URL", help="where the whole page is")
    parser.add_argument("--name", default="matrix", help="the comment's name, where a pull request has several")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the comment into this file")
    parser.add_argument("--post", action="store_true", help="write the comment on GitHub, or anew where it is there; "
                        "GITHUB_TOKEN and GITHUB_REPOSITORY say as whom and where")  # fmt: skip
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--number", type=int, help="the pull request's number")
    which.add_argument("--head", metavar="OWNER:BRANCH", help="the pull request's branch, in place of its number")
    parser.add_argument("--commit", metavar="ID", help="with --head: a pull request with newer commits gets no comment")


def main(options: argparse.Namespace) -> int:
    """Make the comment; print, write or post it."""
    from kernel_matrix.adopt import pull_request, sites  # the models of reports take long to import
    from kernel_matrix.adopt.comment import comment, marker

    _check(options)
    text = comment(sites.read(options.before), sites.read(options.now), name=options.name, page=options.page)
    if options.write:
        write_atomically(options.write, text)
    if not options.post:
        print(text, end="")
        return 0
    github = pull_request.github()
    numbers = [options.number] if options.number else pull_request.pull_requests(github, options.head, options.commit)
    for number in numbers:
        print(f"comment: {pull_request.put(github, number, text, marker(options.name))}")
    if not numbers:
        print("comment: no open pull request has this commit as its newest: none was made")
    return 0


def _check(options: argparse.Namespace) -> None:
    """Raise a UserError for options that do not fit."""
    if not re.fullmatch(r"[\w.-]{1,80}", options.name):
        raise UserError(f"--name {options.name}: letters, digits, '.', '_' and '-' make a name.")
    if options.page and not re.fullmatch(r"https?://[^\s()<>\[\]]{1,1000}", options.page):
        raise UserError(f"--page {options.page}: this is no address.")
    if options.post and not options.number and not (options.head and options.commit):
        raise UserError("--post: name the pull request: --number, or --head with --commit.")
