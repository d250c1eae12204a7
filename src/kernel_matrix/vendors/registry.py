"""All vendors and their programs, found by the names of the files in this package."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping

import kernel_matrix.vendors as package
from kernel_matrix.vendors.program import Program
from kernel_matrix.vendors.vendor import Vendor


@functools.cache
def vendors() -> Mapping[str, Vendor]:
    """Return every vendor by the name of its module, in the order of names; vendors of GPUs come last."""
    by_name: dict[str, Vendor] = {}
    for module in pkgutil.iter_modules(package.__path__):
        content = importlib.import_module(f"{package.__name__}.{module.name}")
        if isinstance(vendor := getattr(content, "VENDOR", None), Vendor):
            by_name[module.name] = vendor
    return dict(sorted(by_name.items(), key=lambda item: (item[1].gpu, item[0])))


def vendor_names() -> tuple[str, ...]:
    """Return the names that ``device`` may have in matrix.yaml."""
    return tuple(vendors())


def vendor_named(name: str) -> Vendor:
    """Return the vendor of that name, which is in matrix.yaml or in a device of this machine."""
    return vendors()[name]


def programs() -> tuple[Program, ...]:
    """Return the programs that the vendors' toolchains start."""
    return tuple(program for vendor in vendors().values() for program in vendor.programs)


def program_names() -> tuple[str, ...]:
    """Return the names that ``needs`` may have in matrix.yaml."""
    return tuple(dict.fromkeys(program.name for program in programs()))
