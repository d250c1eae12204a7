"""The parts that both emulators have: memory, findings, the compiler of interpreters, the driver for Triton."""
