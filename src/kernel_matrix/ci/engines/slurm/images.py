"""The command lines by which a row runs inside of an image, without a daemon and without root. Pure functions."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from kernel_matrix.ci.engines.state import Batch, ClusterRun
from kernel_matrix.run.proven import KEY
from kernel_matrix.vendors.registry import vendor_named


def _apptainer(image: str, folders: Sequence[str], root: str) -> list[str]:
    binds = [word for folder in folders for word in ("--bind", folder)]
    return ["apptainer", "exec", *binds, "--pwd", root, image]


def _charliecloud(image: str, folders: Sequence[str], root: str) -> list[str]:
    binds = [f"--bind={folder}" for folder in folders]
    return ["ch-run", "--set-env", *binds, f"--cd={root}", image, "--"]


def _podman(image: str, folders: Sequence[str], root: str) -> list[str]:
    binds = [f"--volume={folder}:{folder}" for folder in folders]
    run = ["podman", "run", "--rm", "--init", "--userns=keep-id", "--read-only", "--entrypoint=", f"--workdir={root}"]
    return [*run, f"--env={KEY}", "--env=SLURM*", *binds, image]


def _pyxis(image: str, folders: Sequence[str], root: str) -> list[str]:
    mounts = ",".join(f"{folder}:{folder}" for folder in folders)
    options = ["--container-readonly", "--no-container-mount-home", "--no-container-entrypoint"]
    where = [f"--container-image={image}", f"--container-mounts={mounts}", f"--container-workdir={root}"]
    return ["srun", "--ntasks=1", *where, *options]


_LINES: Mapping[str, Callable[[str, Sequence[str], str], list[str]]] = {
    "apptainer": _apptainer,
    "charliecloud": _charliecloud,
    "podman": _podman,
    "pyxis": _pyxis,
}
_IMAGE_IS_LAST = {"apptainer": -1, "charliecloud": -2, "podman": -1}  # flags of devices stand before it
_CLEAN = ("env", "--unset=PYTHONPATH", "--unset=PYTHONHOME")  # they are the node's, and the image has its own Python


def inside(run: ClusterRun, batch: Batch) -> str:
    """Return the words before a row's command that run it inside of the image of its batch; empty without an image."""
    ask = batch.ask
    if not ask.image:
        return ""
    words = _LINES[ask.runtime](ask.image, run.folders, run.root)
    if (flags := vendor_named(batch.device).image_flags.get(ask.runtime, "") if batch.device else "") and ask.gres:
        words[_IMAGE_IS_LAST[ask.runtime] : _IMAGE_IS_LAST[ask.runtime]] = flags.split()
    return shlex.join([*_CLEAN, *words])


def before(run: ClusterRun, batch: Batch) -> Iterator[str]:
    """Yield the lines of shell that an image needs before a row: Charliecloud makes no places to mount something."""
    if batch.ask.image and batch.ask.runtime == "charliecloud":
        yield shlex.join(["mkdir", "-p", *(f"{batch.ask.image}{folder}" for folder in run.folders)])
