"""The share of this machine that a job's container gets: three folders, some memory, the device, and no network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.types import LogConfig, Mount

from kernel_matrix.base.owner import OWNER, owner
from kernel_matrix.run.executors import Request
from kernel_matrix.run.harness import copy_folder, copy_for_jobs

SOURCE, HARNESS, JOB = "/mnt/source", "/mnt/harness", "/mnt/job"
_GIB = 1 << 30
_ORDINARY_USER = 1000  # the user of a job when the harness runs as root


@dataclass(frozen=True)
class Sandbox:
    """One job's view of this machine."""

    request: Request
    image: str
    cpus: float
    rootless: bool = False

    @property
    def user(self) -> tuple[int, int]:
        """The user and group of the job: the harness's own, and never root's.

        Where the engine is rootless, the number 0 is the harness's own user.
        """
        if self.rootless:
            return 0, 0
        return (os.getuid(), os.getgid()) if os.getuid() else (_ORDINARY_USER, _ORDINARY_USER)

    @property
    def cache(self) -> Path:
        """The folder of the compilers' caches: in the job's folder, and another one for every image.

        A tmpfs would count against the job's memory and be gone after every crash. The output of one image's compiler
        may not load in another image.
        """
        return self.request.folder / "cache" / self.image.removeprefix("sha256:")[:12]

    def seen(self, path: Path) -> str:
        """Return where the job finds a file of this machine.

        Raises:
            ValueError: the container does not have it.
        """
        build, root = self.request.build, self.request.root
        places = {build / "cache": Path(JOB, self.cache.relative_to(self.request.folder))}
        places |= {self.request.folder: Path(JOB), copy_folder(build): Path(HARNESS), root: Path(SOURCE)}
        for place, inside in places.items():
            if path.is_relative_to(place):
                return str(inside / path.relative_to(place))
        raise ValueError(f"{path} is not in the container")

    def prepare(self) -> None:
        """Make the job's folder and give it to the job's user."""
        self.request.folder.mkdir(parents=True, exist_ok=True)
        self.settle()
        self.cache.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            folder = self.request.folder
            for path in (folder, *folder.iterdir(), self.cache):
                os.chown(path, *self.user, follow_symlinks=False)

    def settle(self) -> None:
        """Remove links from the job's folder: the harness writes there, and a job could lead it elsewhere."""
        for path in self.request.folder.iterdir():
            if path.is_symlink():
                path.unlink()

    def options(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """Return all options of the container but its command."""
        limits = self.request.matrix.container
        return {
            "image": self.image,
            "environment": {"HOME": "/tmp", "USER": "job", "LANG": "C.UTF-8", **environment},  # noqa: S108
            "working_dir": SOURCE,
            "user": "{}:{}".format(*self.user),
            "labels": {OWNER: owner(), "kernel-matrix.job": self.request.job.id},
            "mounts": list(self._mounts()),
            # Compilers run what they have written to /tmp.
            "tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={int(limits.tmp * _GIB)}"},  # noqa: S108
            "read_only": True,
            "network_mode": "none",
            "init": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "mem_limit": int(limits.memory * _GIB),
            "memswap_limit": int(limits.memory * _GIB),
            "shm_size": int(limits.shm * _GIB),
            "pids_limit": limits.pids,
            "nano_cpus": int(min(limits.cpus or self.cpus, self.cpus) * 1e9),
            "log_config": LogConfig(type="none"),  # what a job prints goes into its folder, not onto the engine's disk
            **self.device_options(),
        }

    def device_options(self) -> Mapping[str, Any]:
        """Return the options that give the container the GPUs that the job runs on."""
        return self.request.vendor.container_options() if self.request.gpu else {}

    def _mounts(self) -> list[Mount]:
        """Return the folders of this machine that the job sees."""
        root, folder = self.request.root, self.request.folder
        mounts = [Mount(SOURCE, str(root), "bind", read_only=True), Mount(JOB, str(folder), "bind")]
        mounts.append(Mount(HARNESS, str(copy_for_jobs(self.request.build)), "bind", read_only=True))
        for mount in mounts:  # a mount below it would not be read-only
            mount["BindOptions"] = {"NonRecursive": True}
        return [*mounts, *self._hidden()]

    def _hidden(self) -> list[Mount]:
        """Return the mount that hides the build folder: it has other jobs' files and a closed network's settings.

        It is an empty folder: what podman mounts as memory gets a copy of what was there.
        """
        root, build = self.request.root, self.request.build
        if not build.is_relative_to(root):
            return []
        empty = build / "empty"
        empty.mkdir(exist_ok=True)
        empty.chmod(0o755)  # the user of a job may be another one
        return [Mount(f"{SOURCE}/{build.relative_to(root)}", str(empty), "bind", read_only=True)]
