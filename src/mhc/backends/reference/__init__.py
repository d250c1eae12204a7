"""Eager PyTorch: the equations as they stand. In float64 it is the golden that every other backend is held to."""
