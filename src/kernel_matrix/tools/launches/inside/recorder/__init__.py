"""The recorder: it stands in for a GPU while a program runs, and compiles what the program has launched.

``session`` begins and ends it. ``triton``, ``tilelang`` and ``nvcc`` record what is given to a toolchain, each with a
``source`` that compiles it for a target. ``stand_ins`` answer in place of a GPU, and ``emulated`` computes launches.
"""
