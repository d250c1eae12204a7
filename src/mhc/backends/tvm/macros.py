"""Let a macro of a script find the parser that reads the script, without reading sources.

For each call of a macro TVM asks Python's ``inspect`` for all frames of the stack, with a source line of each, and uses
only the frames' globals. An expression of a script is code that belongs to no module, and for each such frame
``inspect`` goes through all modules: that was a third of the time in which kernels with macros are built.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from tvm.script.parser.core.parser import ScriptMacro


def find_parsers_by_frames() -> None:
    """Replace the search of TVM's macros in this process: the same search, through the frames alone."""
    ScriptMacro._find_parser_def = _parser_of_callers


def _parser_of_callers(_: ScriptMacro) -> Any:
    """Return the parser that the nearest caller has among its globals.

    Raises:
        RuntimeError: there is none: a macro was called outside of a script.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if (parser := frame.f_globals.get(ScriptMacro.parser_object_name)) is not None:
            return parser
        frame = frame.f_back
    raise RuntimeError(f"{ScriptMacro.parser_object_name} not available")
