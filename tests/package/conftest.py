"""The kernel package's own tests use modules of the conformance suite."""

import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "mhc"))
