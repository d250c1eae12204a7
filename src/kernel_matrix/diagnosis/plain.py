"""Take off what CI services, builders and terminals put around an error, and what did not end it."""

from __future__ import annotations

import re

from kernel_matrix.base.printing import without_colours
from kernel_matrix.diagnosis.whole import ungrouped

_MARGIN = re.compile(
    r"^[ \t]*(?:(?:[^\t\n]+\t[^\t\n]+\t)?"  # job and step, as GitHub's command line has them before the time
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[ \t]+"
    r"(?:[0-9a-f]{2}[OE][ +])?"  # GitLab's number and kind of a stream
    r"|#\d+ (?:\d+\.\d+ )?|\d+\.\d+ "  # BuildKit, and what it repeats at its end
    r"|##\[\w+\]|::error[^:\n]*::"
    r"|\[(?:rank|default)\d+\]: ?"
    r"|E {3,}"  # pytest
    r")+",
    re.MULTILINE,
)
_WARNED = re.compile(r"^.+:\d+: \w*Warning: .*$", re.MULTILINE)  # of Python, at a line of a program that goes on
_DONE = "\nSuccessfully installed "  # pip: what it tried again before does not matter


def decoded(data: bytes) -> str:
    """Return the text of a log. PowerShell writes UTF-16, with a mark at the beginning or without."""
    marked = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    encoding = "utf-16" if marked else "utf-16-le" if data[1:4:2] == b"\0\0" else "utf-8"
    return data.decode(encoding, errors="replace")


def plain(text: str) -> str:
    """Return the lines of an error as the tool itself wrote them, from the last step on that has not ended well."""
    text = text.replace("\ufeff", "").replace("\r\n", "\n").replace("\r", "\n")
    text = _WARNED.sub("", _MARGIN.sub("", ungrouped(without_colours(text))))
    return text[text.rfind(_DONE) + 1 :]
