"""Pack the results of many runs into one small set of four tables, to keep them in git.

Whatever reads results reads a packed set too. A newer run takes the place of a run in the set if it has measured all of
its cases anew.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix.store import documents


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which results, and the folder of the set."""
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="FOLDER", help="folders of results, such as build/results"
    )
    parser.add_argument("--into", type=Path, metavar="DIR", required=True, help="the folder of the set: one a machine")
    parser.add_argument("--former", action="store_true", help="keep the runs that newer ones replace, in DIR/former")
    parser.add_argument("--documents", action="store_true", help="pack JSON of checks or calibrations instead")


def main(options: argparse.Namespace) -> int:
    """Pack the runs, and print what the set has."""
    if options.documents:
        number = documents.pack(options.folders, options.into)
        print(f"{options.into / documents.PACKED}: {number} documents")
        return 0
    from kernel_matrix.store.pack import pack  # DuckDB and pyarrow take long to import

    packed = pack(options.folders, options.into, former=options.former)
    runs = f"{len(packed.runs):,} run{'' if len(packed.runs) == 1 else 's'}"
    print(f"{options.into}: {runs} with {packed.results:,} results, {packed.bytes:,} bytes")
    for name, run in packed.replaced.items():
        word = "former" if options.former else "replaced by newer runs"
        print(f"{word}: {run.facts.get('job', '')}-{name}, {run.started}")
    for folder in packed.told:
        print(f"{folder}: as it was signed")
    return 0
