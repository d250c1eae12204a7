"""The devices of this machine, as the vendors' modules detect them."""

from __future__ import annotations

from dataclasses import dataclass

from kernel_matrix.vendors.registry import vendor_named, vendors
from kernel_matrix.vendors.vendor import Device


@dataclass(frozen=True)
class Machine:
    """The devices of a machine."""

    devices: tuple[Device, ...]

    def device_for(self, vendor: str, target: str) -> Device | None:
        """Return the first device of the vendor that runs code for the target, or one of software in its place."""
        device = next((device for device in self.of(vendor) if target in device.targets), None)
        stand_in = vendor_named(vendor).stand_in
        return stand_in(self.devices, target) if device is None and stand_in is not None else device

    def of(self, vendor: str) -> tuple[Device, ...]:
        """Return the devices of the vendor."""
        return tuple(device for device in self.devices if device.vendor == vendor)

    def has(self, vendor: str) -> bool:
        """Return whether there is any device of the vendor."""
        return bool(self.of(vendor))


def detect() -> Machine:
    """Return this machine with its devices; GPUs come last."""
    return Machine(tuple(device for vendor in vendors().values() for device in vendor.detect()))
