"""The part of the benchmark that runs in a toolchain's environment. It needs the standard library alone."""
