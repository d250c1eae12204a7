"""Make a matrix and results of any size, and measure how long judging takes: python benchmarks/scale --help."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

import make  # noqa: E402
import measure  # noqa: E402

from kernel_matrix import pipeline  # noqa: E402
from kernel_matrix.base.errors import UserError  # noqa: E402
from kernel_matrix.store.load import collect  # noqa: E402


def arguments() -> argparse.Namespace:
    """Return the options: the size, the folder, and what is written there."""
    parser = argparse.ArgumentParser(prog="python benchmarks/scale", description=str(__doc__).splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000, help="cases of the plan, about (10000)")
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
        help="measure these forms of the results: junit and tables",
    )
    return parser.parse_args()


def main(options: argparse.Namespace) -> None:
    """Write the matrix and the results, or measure those that are there."""
    if options.measure is not None:
        for line in measure.measure(options.into, options.measure or measure.ROADS):
            print(line, flush=True)
        return
    project = pipeline.load(ROOT / "matrix.yaml")
    like = collect([options.like or project.root / "docs" / "results"]).records
    size = make.Scale(options.cases, options.jobs, options.seed)
    made = make.make(project.matrix, like, size, options.into, tables=options.parquet)
    print(f"{made.results}: {made.files} files with {made.cases} results of {made.planned} planned cases")


if __name__ == "__main__":
    try:
        main(arguments())
    except UserError as error:
        print(f"scale: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
