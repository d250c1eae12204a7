"""Eager PyTorch, line by line the equations: what every other backend is compared with."""
