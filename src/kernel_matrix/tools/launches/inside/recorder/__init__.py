"""The recorder: it stands in for a GPU while a program runs, and compiles what the program has launched."""

from pathlib import Path

# `ahead` is the part that jobs have too. The environment of a program has no harness, so it is found by its folder.
__path__.append(str(Path(__file__).parents[4] / "job"))
