"""A test file that ends the process while it is collected: an error of that file, as an exception in it is."""

from __future__ import annotations

from collections.abc import Generator

import pytest

Reporting = Generator[None, pytest.CollectReport, pytest.CollectReport]


def report_of(collector: pytest.Collector) -> Reporting:
    """Return the report of a collector, to be used in a wrapper of ``pytest_make_collect_report``.

    pytest itself ends at ``sys.exit``, and the tests of all other files with it.
    """
    try:
        return (yield)
    except SystemExit as error:
        raised = pytest.ExceptionInfo.from_exception(error)
        return pytest.CollectReport(collector.nodeid, "failed", collector.repr_failure(raised), [])
