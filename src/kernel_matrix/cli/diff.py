"""Say what differs between two runs: what broke, was mended, became less exact or slower, or is gone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kernel_matrix import judging, pipeline
from kernel_matrix.cli.options import add_matrix_options, load_project, selection_of
from kernel_matrix.results import history


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which two runs, and how they are printed."""
    add_matrix_options(parser)
    run = "a site, a folder of results, or the address of a published compat.json"
    parser.add_argument("before", help=f"the former run: {run}")
    parser.add_argument("now", help="the later run, likewise")
    parser.add_argument(
        "--history", type=Path, help="a site with earlier runs, for folders of results, which have none"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    form.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Print the difference; 1 if something broke or became less exact."""
    from kernel_matrix.report import markdown, runs, sentences

    project = load_project(options)
    planned = pipeline.plan_for(project, selection_of(options))
    earlier = history.read(options.history)
    before, now = (judging.side(project, planned, name, earlier) for name in (options.before, options.now))
    found = runs.compare_runs(before, now)
    if options.json:
        print(json.dumps(runs.as_json(found), indent=1))
    elif options.markdown:
        print(markdown.runs(found, before.name, now.name), end="")
    else:
        print("\n".join(sentences.in_lines(found)))
    return int(found.is_worse)
