"""Say of a test of Hypothesis that it draws anew in each run. Hypothesis is imported by the suite and never here."""

from __future__ import annotations

import os
import sys
from typing import Any

_SETTINGS, _SEED = "_hypothesis_internal_use_settings", "_hypothesis_internal_use_seed"


def draws_anew(test: Any) -> str:
    """Return that the function of a test draws anew, and which examples come first; nothing where it does not.

    A test that is derandomized or has a seed draws the same in each run.
    """
    core = sys.modules.get("hypothesis.core")
    if core is None or not getattr(test, "is_hypothesis_test", False):
        return ""
    settings = getattr(test, _SETTINGS, None) or getattr(getattr(test, "__self__", None), "settings", None)
    seeds = getattr(test, _SEED, None), getattr(core, "global_force_seed", None)
    if getattr(settings, "derandomize", False) or seeds != (None, None):
        return ""
    path = getattr(getattr(settings, "database", None), "path", None)
    kept = f"keeps those that failed in {os.path.relpath(path)}" if path else "has no folder for those that failed"
    return f"Hypothesis draws other examples in each run of this test, and {kept}"
