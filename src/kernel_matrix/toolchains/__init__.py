"""What toolchains can and cannot: probes, version windows, the version that changed something, this machine's state."""
