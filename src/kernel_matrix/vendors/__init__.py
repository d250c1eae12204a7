"""The vendors of devices: one module per vendor, each with a :class:`Vendor` under the name ``VENDOR``.

A new vendor is one new module of this package: its name is what ``device`` says in matrix.yaml.
"""

from kernel_matrix.vendors.finding import Finding, Status
from kernel_matrix.vendors.machine import Machine, detect
from kernel_matrix.vendors.registry import program_names, programs, vendor_named, vendor_names, vendors
from kernel_matrix.vendors.vendor import Device, Vendor

__all__ = [
    "Device",
    "Finding",
    "Machine",
    "Status",
    "Vendor",
    "detect",
    "program_names",
    "programs",
    "vendor_named",
    "vendor_names",
    "vendors",
]
