"""Vendors whose devices nobody has reached with this project: what is known of them, and when it was looked for.

Each has a file of its own with ``VENDOR``, as every vendor has. ``docs/how-to/vendor.md`` says what a maintainer with
such a machine changes there.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernel_matrix.vendors.builds import OWN
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.system import is_on_pci_bus
from kernel_matrix.vendors.vendor import Device, Vendor

_PAGE = "docs/how-to/vendor.md says what to add"


def unreached(title: str, kind: str, *, framework_device: str, lacking: str, looked: str, pci: str = "") -> Vendor:
    """Return a vendor without devices, of whom nothing is compiled: every case is unavailable.

    ``lacking`` is what was not to be had on the day ``looked``. ``pci`` is the vendor's number on the PCI bus.
    """
    why = f"{lacking} (last looked for on {looked})"

    def driver(_: Sequence[Device]) -> Finding:
        if pci and is_on_pci_bus(pci):
            text = f"a device of {title}'s is on the PCI bus, and nothing here uses it: {why}"
            return Finding(f"{title} driver", "absent", text, _PAGE)
        return Finding(f"{title} driver", "absent", f"no {title} {kind} is looked for: {why}", _PAGE)

    return Vendor(
        title=title,
        kind=kind,
        gpu=True,
        framework_device=framework_device,
        build=OWN,
        why_no_flags=f"nobody has given a container a {kind} of {title}'s here",
        in_containers=False,
        driver=driver,
        without_device="planned",
        lacking=f"a {title} {kind} and its maker's toolkit: {why}",
    )
