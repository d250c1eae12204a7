"""A lock keeps two processes apart, or says that it cannot."""

from __future__ import annotations

import errno
import fcntl
import os

import pytest

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.locking import BusyError, locked


def test_a_lock_is_held_once(tmp_path):
    with locked(tmp_path / "lock"), pytest.raises(BusyError), locked(tmp_path / "lock"):
        pass
    with locked(tmp_path / "lock"):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_named_with_the_remedy(tmp_path, monkeypatch, number):
    def refuse(_file: object, _operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(UserError, match=r"no locks .*lockd.*--build FOLDER"), locked(tmp_path / "lock"):
        pass
