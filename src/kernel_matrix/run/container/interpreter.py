"""A Python of an image, and its processes: each runs in a container of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import docker.errors

from kernel_matrix.run.activated import active
from kernel_matrix.run.container.engine import ERRORS, Engine, answering, explained, remove
from kernel_matrix.run.container.sandbox import Sandbox
from kernel_matrix.run.executors import Child, MachineError, UnavailableError

_INTO_LOG = 'exec "$@" >>"$0" 2>&1'


@contextlib.contextmanager
def _standard_input(container: Any, text: str) -> Iterator[None]:
    """Give a container that starts in the block a text; its standard input ends behind that."""
    if not text:
        yield
        return
    stream = container.attach_socket(params={"stdin": 1, "stream": 1})
    pipe = getattr(stream, "_sock", stream)
    try:
        yield
        pipe.sendall(text.encode())
    finally:
        for one in (stream._response, stream, pipe):
            one.close()


@dataclass(frozen=True)
class ContainerInterpreter:
    """A Python of an image."""

    engine: Engine
    sandbox: Sandbox
    python: str
    reference: str
    root: Path | None = None

    @property
    def facts(self) -> Mapping[str, str]:
        """Return the name of the image."""
        return {"image": self.reference}

    @cached_property
    def search_path(self) -> str:
        """Return the PATH of the image."""
        with answering("to describe an image"):
            image = self.engine.client.images.get(self.sandbox.image)
        variables = dict(text.split("=", 1) for text in image.attrs["Config"]["Env"] or ())
        return str(variables.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"))

    def seen(self, path: Path) -> str:
        """Return where the path is mounted."""
        return self.sandbox.seen(path)

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], cwd: Path, log: Path, handed: str = ""
    ) -> Child:
        """Start Python in a container of its own.

        The container writes the log itself, so that it is kept when the engine or the harness dies.
        """
        self.sandbox.prepare()
        command = ["sh", "-c", _INTO_LOG, self.seen(log), self.python, *arguments]
        variables = active(self.python, environment, self.search_path)
        container = self.create(command, variables, working_dir=self.seen(cwd), stdin_open=bool(handed))
        try:
            with answering("to start a container"), _standard_input(container, handed):
                container.start()
        except MachineError:
            remove(container)
            raise
        return ContainerChild(container, self.sandbox)

    def create(self, command: Sequence[str], environment: Mapping[str, str], **more: Any) -> Any:
        """Create a container in the job's sandbox, and do not start it."""
        options = {**self.sandbox.options(environment), **more}
        with answering("to create a container"):
            return self.engine.client.containers.create(entrypoint=[command[0]], command=list(command[1:]), **options)

    def demand_device(self) -> None:
        """Check that the engine can give the device to a container, by starting one.

        Raises:
            UnavailableError: it cannot; the engine's words.
        """
        container = None
        try:
            container = self.create(["true"], {})
            container.start()
        except (*ERRORS, MachineError) as error:
            platform = self.sandbox.request.platform
            raise UnavailableError(
                f"the engine gives no {platform.title} device to a container: {explained(error)}. "
                "Set up the vendor's container support, or take --executor venv"
            ) from None
        finally:
            if container is not None:
                remove(container)


class ContainerChild:
    """A running container."""

    def __init__(self, container: Any, sandbox: Sandbox) -> None:
        self.why = ""
        self._container, self._sandbox = container, sandbox
        self._status: int | None = None
        self._pid: int | None = None  # 0: it is not known
        self._fault: BaseException | None = None
        self._over = threading.Event()
        threading.Thread(target=self._wait, daemon=True).start()

    @property
    def pid(self) -> int | None:
        """Return the id of the container's first process; None where the engine does not run on this machine."""
        if self._pid is None:
            with contextlib.suppress(*ERRORS, OSError):
                self._container.reload()
                pid = int(self._container.attrs["State"]["Pid"])
                its_own = pid and str(self._container.id) in Path(f"/proc/{pid}/cgroup").read_text()
                self._pid = pid if its_own else 0
        return self._pid or None

    def _wait(self) -> None:
        """Wait for the end with one long request, which fails when the engine dies."""
        try:
            self._container.wait(timeout=None)
        except ERRORS as error:
            self._fault = error
        finally:
            self._over.set()

    def poll(self) -> int | None:
        """Return the exit status, once the container is gone."""
        if self._status is None and self._over.is_set():
            if self._fault is not None:
                raise MachineError(f"the Docker engine was lost: {explained(self._fault)}")
            self._status = self._end()
        return self._status

    def _end(self) -> int:
        """Remove the container, and return its exit status."""
        state = {"Status": "removing"}
        try:
            with contextlib.suppress(docker.errors.NotFound):
                self._container.reload()
                state = self._container.attrs["State"]
        except ERRORS as error:
            raise MachineError(f"the Docker engine was lost: {explained(error)}") from error
        if state["Status"] == "removing":
            raise MachineError("somebody else removed the job's container")
        remove(self._container)
        self._sandbox.settle()
        status = int(state["ExitCode"])
        if state["OOMKilled"] and status == 137:
            limit = self._sandbox.request.matrix.container.memory
            self.why = f"it reached the container's memory limit of {limit:g} GiB"
        return 128 - status if 128 < status < 128 + 65 else status  # the numbers of a shell for signals

    def kill(self) -> None:
        """Ask the container to stop, end it when it does not, and remove it."""
        if self._status is not None:
            return
        with answering("to stop a container"), contextlib.suppress(docker.errors.NotFound):
            self._container.stop(timeout=self._sandbox.request.matrix.container.grace)
        remove(self._container)
        self._sandbox.settle()
        self._status = -9
