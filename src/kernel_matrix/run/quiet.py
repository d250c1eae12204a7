"""Let one job measure in quiet: meanwhile no other one that this run knows of works on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition


class Share:
    """One piece of work on the machine. It can ask for quiet, and has to ask whether it may go on."""

    def __init__(self, quiet: Quiet) -> None:
        self._quiet = quiet

    def may_measure(self) -> bool:
        """Return whether all others have stopped; until then the work of this one must rest."""
        return self._quiet.change(self._quiet.take, self)

    def may_go_on(self) -> bool:
        """Return whether this one may work again: nobody measures, and nobody waits for that."""
        return self._quiet.change(self._quiet.give_back, self)

    def ends_measuring(self) -> None:
        """Count as working again, whoever waits: the process that measured or waited is dead."""
        self._quiet.change(self._quiet.put_back, self)


class Quiet:
    """The work on the machine: what goes on, what waits until nothing does, and what measures.

    All that wait measure one after the other before anybody goes on: then they all work again at the same time.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._working: set[Share] = set()
        self._waiting: list[Share] = []
        self._measuring: Share | None = None

    @contextmanager
    def work(self) -> Iterator[Share]:
        """Work, as soon as nobody measures or waits for that."""
        share = Share(self)
        with self._changed:
            self._changed.wait_for(self._is_free)
            self._working.add(share)
        try:
            yield share
        finally:
            with self._changed:
                self._leave(share)
                self._changed.notify_all()

    def change(self, step: Callable[[Share], bool], share: Share) -> bool:
        """Take a step of one piece of work, and return its answer."""
        with self._changed:
            result = step(share)
            self._changed.notify_all()
            return result

    def take(self, share: Share) -> bool:
        """Wait for quiet, and measure if it is there and nobody has waited longer."""
        if self._measuring is not share:
            if share not in self._waiting:
                self._leave(share)
                self._waiting.append(share)
            if not self._working and self._measuring is None and self._waiting[0] is share:
                self._measuring = self._waiting.pop(0)
        return self._measuring is share

    def give_back(self, share: Share) -> bool:
        """End the measuring, and work if nobody else measures or waits."""
        if self._measuring is share:
            self._measuring = None
        if self._is_free():
            self._working.add(share)
        return share in self._working

    def put_back(self, share: Share) -> bool:
        """Work, whatever it did."""
        self._leave(share)
        self._working.add(share)
        return True

    def _is_free(self) -> bool:
        return self._measuring is None and not self._waiting

    def _leave(self, share: Share) -> None:
        self._working.discard(share)
        if share in self._waiting:
            self._waiting.remove(share)
        if self._measuring is share:
            self._measuring = None
