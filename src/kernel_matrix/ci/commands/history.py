"""Fetch the site of main's newest run: how long cases take, each lane's last result, and the report to compare with."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.ci import preference
from kernel_matrix.ci.services import github
from kernel_matrix.cli.options import add_matrix_options, load_project


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument: where the site goes."""
    add_matrix_options(parser)
    parser.add_argument("folder", type=Path, help="the folder of the site, which is emptied first")


def main(options: argparse.Namespace) -> int:
    """Fetch it, or leave a file that says that there is none: an artifact cannot hold an empty folder."""
    repository = os.environ.get("GITHUB_REPOSITORY")
    if not repository:
        raise UserError("GITHUB_REPOSITORY is not set: owner/name of the repository.")
    if not github.fetch_site(repository, options.folder, lambda text: print(f"history: {text}")):
        options.folder.mkdir(parents=True, exist_ok=True)
        (options.folder / "none.txt").write_text("none\n", encoding="utf-8")
        print("history: there is none; every case counts as not measured, and every lane as new")
    if preference.has_choice(load_project(options).matrix):
        write_atomically(options.folder / preference.FILE, preference.to_json(github.busy(repository)))
    return 0
