"""The kernel package's own tests use modules of the conformance suite."""

import atexit
import gc
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "mhc"))


def pytest_collection_finish():
    """Take PyTorch's modules out of the collections of garbage to come: they stay until the end."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # what is frozen at the end looks like a leak to modules in C++
