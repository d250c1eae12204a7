"""Show the dashboard in a browser while a matrix runs: its cells fill as the jobs' journals grow."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from kernel_matrix import pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.locking import BusyError, locked
from kernel_matrix.cli.options import add_matrix_options, load_project, selection_of
from kernel_matrix.serve.page import LivePage, earlier_of
from kernel_matrix.serve.server import PageServer

_PORT = 8765


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which page, and where."""
    add_matrix_options(parser)
    parser.add_argument("--history", type=Path, help="the site of an earlier run, for how long the rest takes")
    parser.add_argument("--port", type=int, default=_PORT, help=f"the port on this machine ({_PORT}; 0: any free one)")
    parser.add_argument("--once", action="store_true", help="make the page of this moment, and end")


def main(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C; 0 then."""
    project = pipeline.with_tests_of_run(load_project(options))
    page = LivePage(project, pipeline.plan_for(project, selection_of(options)), earlier_of(project, options.history))
    try:
        with locked(project.build / "serve.lock"):
            return _once(page) if options.once else _serve(page, options.port)
    except BusyError:
        raise UserError(f"{project.build}: its page is served already. Open that one, or end it.") from None


def _once(page: LivePage) -> int:
    page.refresh()
    print(f"dashboard: {page.served / 'index.html'}")
    return 0


def _serve(page: LivePage, port: int) -> int:
    stop = threading.Event()
    with PageServer(port, lambda: (page.served, page.project.site)) as server:
        page.refresh()
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        print(f"The dashboard is at {server.address} until Ctrl-C.", flush=True)
        try:
            while not stop.wait(1.0):
                page.refresh()
        except KeyboardInterrupt:
            print("The dashboard is no longer served.")
        finally:
            former = signal.signal(signal.SIGINT, signal.SIG_IGN)  # nox passes on the same Ctrl-C a second time
            server.shutdown()
            signal.signal(signal.SIGINT, former)
    return 0
