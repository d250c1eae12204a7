"""The traces that the search has found: ``traces/<operator>.json``, written by ``benchmarks/search.py``.

A trace was found for one shape in fp32 and is replayed for all shapes and dtypes. Where a length cannot be divided as
there, TVM takes the whole length.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import tvm
from tvm import s_tir


def path_of(name: str) -> Path:
    """Return the file of an operator's trace."""
    return Path(__file__).parent / "traces" / f"{name}.json"


def arranged(name: str, script: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """Return the script with its loops arranged as the trace says."""
    schedule = s_tir.Schedule(tvm.IRModule({"main": script}))
    s_tir.schedule.Trace.apply_json_to_schedule(_trace(name), schedule)
    return schedule.mod["main"]


@functools.cache
def _trace(name: str) -> Any:
    return json.loads(path_of(name).read_text(encoding="utf-8"))["trace"]
