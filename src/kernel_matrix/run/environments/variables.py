"""The variables that a job gets from the shell of whoever starts the harness. No other one reaches a job.

They say where software is, which devices are to be used, and how the network is reached. A variable that changes a
result has to stand in matrix.yaml (``environment``), where everybody sees it. What a vendor's software needs stands in
the vendor's file (``Vendor.variables``, and those that name a program: ``Program.variable``, ``Program.homes``).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from kernel_matrix.base.paths import without_folders
from kernel_matrix.vendors.registry import programs, vendors

_OF_PERSONS = ("HOME", "USER", "LOGNAME", "XDG_RUNTIME_DIR")
_NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_SOFTWARE = ("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CONDA_PREFIX")
SYSTEM = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
_FACT = "variable."


def inherited(more: Collection[str] = (), shell: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of the shell that a job gets; ``more`` are names of further variables."""
    of_vendors = {name for vendor in vendors().values() for name in vendor.variables}
    of_programs = {name for program in programs() for name in (program.variable, *program.homes)}
    network = {*_NETWORK, *(name.lower() for name in _NETWORK)}
    names = {*_OF_PERSONS, *network, *_SOFTWARE, *SYSTEM, *of_vendors, *of_programs, *more}
    return {name: shell[name] for name in sorted(names) if name in shell}


def facts_of(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables as facts of a job, but those that tell of a person or of a network."""
    private = {*_OF_PERSONS, *_NETWORK, *(name.lower() for name in _NETWORK)}
    return {f"{_FACT}{name}": without_folders(value, {}) for name, value in variables.items() if name not in private}
