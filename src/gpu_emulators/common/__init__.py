"""What both emulators have: memory, findings, the compiler of their interpreters, and the driver for Triton."""
