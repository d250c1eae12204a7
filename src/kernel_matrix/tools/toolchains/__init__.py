"""Experiments with toolchains: probes, sweeps over versions, bisections, and reports for maintainers."""
