"""Experiments with toolchains: probes, sweeps over versions, reports for maintainers, and doctor for this machine."""
