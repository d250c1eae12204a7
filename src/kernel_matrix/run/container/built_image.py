"""The image in which a package was built: its commands run in containers of the platform's image, which are committed.

The repository's copy is a folder of this machine, as it is for a job. What a command installs goes into the image.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from docker.types import LogConfig, Mount

from kernel_matrix.base.owner import OWNER, owner
from kernel_matrix.run.activated import active
from kernel_matrix.run.container import network
from kernel_matrix.run.container.build import context, find
from kernel_matrix.run.container.engine import Engine, answering, patience
from kernel_matrix.run.container.interpreter import ContainerChild, ContainerInterpreter
from kernel_matrix.run.container.sandbox import SOURCE, Sandbox
from kernel_matrix.run.environments.built import Build

_PLACE, _NETWORK = "/mnt/place", "/mnt/network"
_REPOSITORY = "kernel-matrix/built"
# The variables stand in the command: variables of the container would stay in the image, also a proxy's password.
_STEP = 'sh -c "$1" >>"$0" 2>&1; status=$?; chown -R "$2" "$(dirname "$0")" .; exit $status'


class _Step(ContainerChild):
    """A command of a build in a container, which is committed if the command succeeds."""

    image = ""

    def _end(self) -> int:
        self._container.reload()
        if self._container.attrs["State"]["ExitCode"] == 0:
            with answering("to keep what was built"):
                self.image = str(self._container.commit(conf={"Cmd": ["bash"]}).id)
        return super()._end()


@dataclass
class _Steps:
    """The commands of a build, each in a container of the image that the one before left."""

    engine: Engine
    sandbox: Sandbox
    build: Build
    python: str
    search_path: str
    done: list[_Step] = field(default_factory=list)

    def make(self) -> str:
        """Run the commands, and return the id of the last image."""
        with patience(self.engine.client):
            self.build.run(self._start)
        image = self.done[-1].image
        with answering("to name an image"):
            self.engine.client.images.get(image).tag(_REPOSITORY, self.build.place.name)
        return image

    def _start(self, command: str) -> _Step:
        image = self.done[-1].image if self.done else self.sandbox.image
        with answering("to start a build"):
            container = self.engine.client.containers.create(image, self._in_shell(command), **self._options())
            with context(network.site([])) as archive:
                container.put_archive(_NETWORK, archive)
            container.start()
        self.done.append(_Step(container, self.sandbox))
        return self.done[-1]

    def _in_shell(self, command: str) -> list[str]:
        variables = {
            "HOME": "/tmp",  # noqa: S108  of the container
            **network.proxies(),
            **(dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE"), f"{_NETWORK}/ca.crt") if network.certificates() else {}),
            "PIP_CONFIG_FILE": f"{_NETWORK}/pip.conf",
            "UV_CONFIG_FILE": f"{_NETWORK}/uv.toml",
            **self.build.variables("/tmp/cache"),  # noqa: S108
        }
        given = [f"{name}={value}" for name, value in active(self.python, variables, self.search_path).items()]
        log = f"{_PLACE}/{self.build.log.name}"
        user = "0:0" if self.sandbox.rootless else f"{os.getuid()}:{os.getgid()}"
        return ["env", *given, "sh", "-c", _STEP, log, command, user]

    def _options(self) -> dict[str, Any]:
        """Return the options of the container: root's, with a network, as when an image is made."""
        return {
            "working_dir": SOURCE,
            "user": "0",
            "labels": {OWNER: owner()},
            "mounts": [
                Mount(SOURCE, str(self.build.root), "bind"),
                Mount(_PLACE, str(self.build.place), "bind"),
                Mount(_NETWORK, None),
            ],
            "init": True,
            "log_config": LogConfig(type="none"),
        }


def built(interpreter: ContainerInterpreter) -> ContainerInterpreter:
    """Return an interpreter like this one in whose image the package was built, or is built now.

    Raises:
        InstallError: a command failed.
        MachineError: the engine failed.
    """
    engine, sandbox = interpreter.engine, interpreter.sandbox
    build = Build.of(sandbox.request, "container", sandbox.image)
    steps = _Steps(engine, sandbox, build, interpreter.python, interpreter.search_path)
    image = build.once(steps.make, lambda image: find(engine.client, image) is not None)
    reference = f"{_REPOSITORY}:{build.place.name}"
    inside = Sandbox(build.inside, image, sandbox.cpus, sandbox.rootless)
    return ContainerInterpreter(engine, inside, interpreter.python, reference, build.root)
