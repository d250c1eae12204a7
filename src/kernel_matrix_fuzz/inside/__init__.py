"""The part of the fuzzer that runs in a toolchain's environment, beside the part of the harness that a job has."""
