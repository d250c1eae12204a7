"""Launches that are computed: by Triton's interpreter, on an emulator, or in a simulator."""
