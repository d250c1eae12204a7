"""Print with colours, which are commands to a terminal: the texts between them have none."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from kernel_matrix.base.printing import Printed, printable_text


class ColouredConsole(Console):
    """Write to the terminal itself; every text in what is printed is without control characters."""

    def __init__(self, **options: Any) -> None:
        """Take rich's options."""
        file = sys.stdout.stream if isinstance(sys.stdout, Printed) else None
        super().__init__(file=file, highlight=False, soft_wrap=True, emoji=False, **options)  # an id may hold ':x:'

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text as rich prints it."""
        return super().render_str(printable_text(text), **options)
