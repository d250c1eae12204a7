"""The recorder: it stands in for a GPU while a program runs, and compiles what the program has launched.

``session`` begins and ends it. ``triton``, ``tilelang`` and ``nvcc`` record what is given to a toolchain, each with a
``source`` that compiles it for a target. Below ``triton`` launches are computed (``emulated``) and run on a GPU
(``card``). ``stand_ins`` answer in place of a GPU. All else is the same for every toolchain.
"""
