"""Slurm's programs, and what they say where something is wrong."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence

from kernel_matrix.base.errors import UserError
from kernel_matrix.ci.engines import AwayError

_SECONDS = 120.0  # the programs themselves give up sooner
# What they say while the controller, or the database of accounts, is down or restarts.
_AWAY = re.compile(
    r"(?i)unable to contact|connection (refused|timed out|reset)|socket timed out|not responding|zero bytes|"
    r"communication (connection )?failure|slurmdbd|resource temporarily unavailable|backup controller|munge"
)


def ask(*words: str, text: str | None = None) -> str:
    """Return what a program of Slurm prints.

    Raises:
        AwayError: the controller does not answer now.
        UserError: the program is not here, or refuses.
    """
    epoch = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    try:
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, check=False, env=epoch, timeout=_SECONDS
        )
    except FileNotFoundError:
        raise UserError(
            f"{words[0]} is not here. Type this where the cluster's jobs are submitted, or install Slurm's clients "
            "(Debian: apt-get install slurm-client)."
        ) from None
    except subprocess.TimeoutExpired:
        raise AwayError(f"{words[0]} had no answer within {_SECONDS:g} s") from None
    if done.returncode:
        raise _fault(words, done.stderr.strip() or done.stdout.strip())
    return done.stdout


def _fault(words: Sequence[str], said: str) -> UserError:
    reason = "; ".join(dict.fromkeys(line.partition("error: ")[2] or line for line in said.splitlines()[-3:]))
    text = f"{words[0]}: {reason or 'it failed and said nothing'}"
    return AwayError(text) if _AWAY.search(said) else UserError(text)
