"""Make a matrix and results of any size, and measure how long it takes to judge them."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix import pipeline


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: the size, the folder, and what is written there."""
    parser.add_argument("--cases", type=int, default=10_000, help="cases of the plan (10000)")
    parser.add_argument("--jobs", type=int, default=10, help="jobs, each with one file of results (10)")
    parser.add_argument(
        "--into", type=Path, default=Path("build", "scale"), metavar="FOLDER", help="the folder (build/scale)"
    )
    parser.add_argument("--parquet", action="store_true", help="write the tables of the results as well")
    parser.add_argument("--seed", type=int, default=0, help="the number that all chance follows from (0)")
    parser.add_argument(
        "--like", type=Path, metavar="FOLDER", help="the real results that are copied (docs/results beside matrix.yaml)"
    )
    parser.add_argument(
        "--measure",
        nargs="*",
        metavar="ROAD",
        help="measure these roads: objects, junit and tables",
    )
    parser.add_argument(
        "--others",
        action="store_true",
        help="give 10,000 results, 100,000 and a million of them, up to --cases, "
        "to `report` and to other tools, and measure each",
    )
    parser.add_argument("--limit", type=float, default=900, help="seconds that each of --others may take (900)")


def main(options: argparse.Namespace) -> int:
    """Write the matrix and the results, or measure those that are there."""
    from kernel_matrix.lab import scale, scale_measure, scale_others  # what they import takes long

    if options.others:
        tools = (scale_others.own(options.into), *scale_others.TOOLS)
        sizes = [size for size in scale_others.SIZES if size <= options.cases]
        for line in scale_others.others(options.into, tools, sizes or [options.cases], options.limit):
            print(line, flush=True)
        return 0
    if options.measure is not None:
        for line in scale_measure.measure(options.into, options.measure or scale_measure.ROADS):
            print(line, flush=True)
        return 0
    project = pipeline.load(Path("matrix.yaml"))
    like = pipeline.collect(project, [options.like or project.root / "docs" / "results"]).records
    size = scale.Scale(options.cases, options.jobs, options.seed)
    made = scale.make(project.matrix, like, size, options.into, tables=options.parquet)
    print(f"{made.results}: {made.files} files with {made.cases} results of {options.cases} planned cases")
    return 0
