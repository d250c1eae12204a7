"""Ask each toolchain small questions by the package's probes, and say what their answers and kept sweeps mean."""
