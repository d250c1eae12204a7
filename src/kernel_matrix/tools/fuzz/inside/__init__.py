"""The part of the fuzzer that runs in a toolchain's environment, with the part of the harness that a job has."""
