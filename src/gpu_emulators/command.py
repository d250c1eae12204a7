"""The command line: what a file of machine code or PTX has, whether all of it is known, and a launch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpu_emulators.amd import command as amd
from gpu_emulators.common.errors import EmulatorError
from gpu_emulators.nvidia import command as nvidia

_VENDORS = {"amd": amd, "nvidia": nvidia}
_USAGE = 2


def main(words: Sequence[str] | None = None) -> int:
    """Do what the words say. Exit status: 0 good, 1 a kernel has a fault or an unknown instruction, 2 no such input."""
    parser = argparse.ArgumentParser(prog="gpu-emulators", description=__doc__)
    vendors = parser.add_subparsers(dest="vendor", required=True)
    for name, module in _VENDORS.items():
        module.add_to(vendors.add_parser(name, help=module.__doc__, description=module.__doc__))
    given = parser.parse_args(words)
    module = _VENDORS[given.vendor]
    try:
        status: int = module.show(given) if given.command == "show" else module.run(given)
    except (EmulatorError, OSError, ValueError) as error:
        print(f"gpu-emulators: {error}", file=sys.stderr)
        return _USAGE
    return status
