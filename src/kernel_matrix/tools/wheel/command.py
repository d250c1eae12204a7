"""Say whether built wheels load with each PyTorch, which symbols they lack, and which GPUs their code is for."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.tools.wheel import builds
from kernel_matrix.tools.wheel.lines import lines
from kernel_matrix.tools.wheel.study import site_of, study


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: the wheels, the builds of PyTorch, and what else is written."""
    parser.add_argument("wheels", nargs="*", type=Path, metavar="WHEEL", help="wheels as files")
    parser.add_argument(
        "--torch",
        nargs="+",
        default=[],
        metavar="BUILD",
        help="versions (2.13 2.14.0), a range (2.11..2.15), a site-packages, PyTorch's wheel, or a list",
    )
    parser.add_argument(
        "--except",
        dest="excepted",
        nargs="+",
        default=[],
        metavar="PATTERN",
        help="shared objects that are for other machines: 'libbitsandbytes_xpu*'",
    )
    parser.add_argument("--load", default="", metavar="PYTHON", help="load them for real in a Python that has PyTorch")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all answers there")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the builds of --torch there, as a list")


def main(options: argparse.Namespace) -> int:
    """Return 1 if an object does not load where the metadata admits it, or if a tag is not true."""
    site = [site_of(options.load)] if options.load else []
    chosen, unknown = builds.chosen(options.torch, site)
    if options.keep:
        builds.keep(chosen, options.keep)
        print(f"written: {options.keep}")
    elif not options.wheels:
        raise UserError("there is no wheel: write its file, such as dist/package-1.0-py3-none-linux_x86_64.whl.")
    studies = [study(path, chosen, options.excepted, options.load) for path in options.wheels]
    for one in studies:
        for line in lines(one, chosen):
            print(line)
    for version in unknown:
        print(
            f"PyTorch {version}: no list of its symbols is here, so it was not looked at. Name a folder that has it, "
            "or make a list there: `kernel-matrix wheel --torch SITE-PACKAGES --keep torch.xz`"
        )
    if options.json:
        write_atomically(options.json, json.dumps([one.as_json() for one in studies], indent=1))
    return int(any(one.is_red or one.unlike for one in studies) or bool(unknown))
