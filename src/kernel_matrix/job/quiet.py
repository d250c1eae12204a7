"""Ask the harness for quiet: while a case is timed, nothing else of the run works on the machine.

The journal says what a job asks for. The harness answers with a file next to the journal, and this module takes it.
"""

from __future__ import annotations

import time
from pathlib import Path

from kernel_matrix.job import own_files
from kernel_matrix.job.journal import Journal
from kernel_matrix.job.race import REST_SECONDS

ANSWER = "may-go-on"  # the file
_LOOK_SECONDS = 0.005


def begin(journal: Journal, case: str) -> None:
    """Wait until nothing else works on the machine, and until idle threads of other jobs sleep too."""
    _ask(journal, "quiet", case)
    time.sleep(REST_SECONDS)


def end(journal: Journal, case: str) -> None:
    """Say that the case is measured, and wait until it may go on: others may have waited to be measured too."""
    _ask(journal, "measured", case)


def _ask(journal: Journal, entry: str, case: str) -> None:
    journal.write(entry, case=case)
    answer = journal.path.with_name(ANSWER)
    while not answer.exists():
        time.sleep(_LOOK_SECONDS)
    answer.unlink()


def answer(folder: Path) -> None:
    """Answer, in the folder of the journal: what the job asks for is so."""
    own_files.write(folder / ANSWER, "")
