"""What toolchains can and cannot: probes, version windows, reports for maintainers, and this machine's state."""
