"""ClusterRun -> the scripts of its jobs: one array for each kind of node, and the report. Pure functions."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from kernel_matrix.ci.engines import REPORT
from kernel_matrix.ci.engines.slurm import copied
from kernel_matrix.ci.engines.slurm.nodes import gres_of
from kernel_matrix.ci.engines.state import Batch, ClusterRun, status_of_report
from kernel_matrix.run.proven import KEY
from kernel_matrix.vendors.registry import vendor_named

_LOGS = "logs"  # in the folder of the run
_GRACE = 60  # seconds before the time limit at which a row is warned, so that it writes what has ended
_EARLIEST = 2 * _GRACE + 30  # seconds before the time limit: Slurm warns up to a minute earlier than it is asked to
_REPORT_MINUTES = 120  # a report of a million results takes some
_END = "END-OF-JOB"  # of a script inside of a script


def job_name(run: ClusterRun, part: int | str) -> str:
    """Return the name of the array of a batch, or of the report's job."""
    return f"km-{run.id}-{part}"


def logs(run: ClusterRun) -> Path:
    """Return the folder of what the jobs print."""
    return Path(run.folder) / _LOGS


def log_of(run: ClusterRun, row: str) -> Path:
    """Return the file of what a row's job prints."""
    if row == REPORT:
        return logs(run) / f"{job_name(run, REPORT)}.log"
    for number, batch in enumerate(run.batches):
        if row in batch.rows:
            return logs(run) / f"{job_name(run, number)}_{batch.rows.index(row)}.log"
    raise KeyError(row)


def warned(run: ClusterRun, row: str) -> Path:
    """Return the file that says that a row was warned of its time limit, and has ended then: Slurm says it failed."""
    return log_of(run, row).with_suffix(".warned")


def options(run: ClusterRun, batch: Batch) -> Iterator[str]:
    """Yield the options of sbatch with what a row of a batch asks for."""
    ask = batch.ask
    if ask.gres:
        yield f"--gres={':'.join(filter(None, (*gres_of(ask.gres)[:2], str(gres_of(ask.gres)[2]))))}"
    words = {"partition": ask.partition, "account": ask.account, "qos": ask.qos, "constraint": ask.constraint}
    words |= {"cpus-per-task": str(ask.cpus or ""), "mem": ask.memory}
    yield from (f"--{name}={word}" for name, word in words.items() if word)
    yield f"--time={batch.minutes}"
    yield f"--deadline=now+{math.ceil(run.queue_minutes) + batch.minutes}minutes"
    yield from ask.options


def array(run: ClusterRun, number: int) -> str:
    """Return the script of a batch. Each task of the array is a row.

    A row that begins once more, after its node has failed or another job has taken it, keeps what it had finished.
    """
    batch = run.batches[number]
    of_logs = copied.logs(run) if run.disk else shlex.quote(str(logs(run)))
    commands = {row: " ".join((*inside(run, batch), run.row_commands[row])) for row in batch.rows}
    if run.disk:
        commands = {row: copied.there(run, row, command) for row, command in commands.items()}
    head = [
        f"--job-name={job_name(run, number)}",
        f"--array=0-{len(batch.rows) - 1}",
        *("--nodes=1", "--ntasks=1", "--requeue", "--open-mode=append", f"--signal=B:TERM@{_GRACE}"),
        *([f"--chdir={run.disk}", f"--output={run.disk}/%x_%a.log"] if run.disk else []),
        *options(run, batch),
    ]
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in head),
        "rows=(",
        *(shlex.quote(f"{row} {command}") for row, command in commands.items()),
        ")",
        'read -r row command <<<"${rows[SLURM_ARRAY_TASK_ID]}"',
        "try=$((${SLURM_RESTART_COUNT:-0} + 1))",
        'echo "$row on $SLURMD_NODENAME, job ${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID, try $try"',
        "again=",
        "if [ $try -gt 1 ]; then again=--resume; fi",
        *(copied.arrive(run) if run.disk else [f"cd {shlex.quote(run.root)} || exit 2"]),
        f"warned={of_logs}/${{SLURM_JOB_NAME}}_$SLURM_ARRAY_TASK_ID.warned",
        'rm -f "$warned"',
        f"trap '[ $SECONDS -lt {60 * batch.minutes - _EARLIEST} ] || touch \"$warned\"; kill -TERM $row_pid' TERM",
        *_begin(run),
        *before(run, batch),
        'eval "exec $command --jobs ${SLURM_CPUS_ON_NODE:-1} $again" &',
        "row_pid=$!",
        "while kill -0 $row_pid 2>/dev/null; do wait $row_pid; status=$?; done",
        "exit $status",
    ]
    return "\n".join(lines) + "\n"


def report(run: ClusterRun) -> str:
    """Return the script of the report. It leaves the exit status of its last command in a file."""
    first = run.batches[0].ask
    ask = Batch(rows=(), ask=first.model_copy(update={"gres": "", "constraint": ""}), minutes=_REPORT_MINUTES)
    ask = ask.model_copy(update={"minutes": min(ask.minutes, *(batch.minutes for batch in run.batches))})
    status = shlex.quote(str(status_of_report(run)))
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in (f"--job-name={job_name(run, REPORT)}", "--nodes=1", "--ntasks=1")),
        *(f"#SBATCH {option}" for option in options(run, ask) if not option.startswith("--deadline")),
        f"cd {shlex.quote(run.root)} || exit 2",
        *_begin(run),
        *(f"{command} || exit" for command in run.report_commands[:-1]),
        run.report_commands[-1],
        f"echo $? >{status}",
    ]
    return "\n".join(lines) + "\n"


def _begin(run: ClusterRun) -> Iterator[str]:
    yield "unset SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU"  # DuckDB would take four fifths for itself
    yield from run.setup.splitlines()


def submission(run: ClusterRun) -> str:
    """Return the script that submits all jobs of a run by hand."""
    folder = shlex.quote(str(logs(run)))
    status = shlex.quote(str(status_of_report(run)))
    lines = ["#!/bin/bash", "# Submit the rows of a plan to Slurm, and the report that waits for them."]
    lines += [f"export {KEY}=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')"]
    lines += ["unset ${!SBATCH_@} ${!SQUEUE_@}  # they are stronger than what stands here"]
    names = ",".join(job_name(run, part) for part in (*range(len(run.batches)), REPORT))
    known = f"squeue --noheader --format=%j --name={names} | grep -q '^km-{run.id}-'"
    lines += [f'if {known}; then echo "jobs of km-{run.id} wait or run"; exit 2; fi']
    lines += ["set -euo pipefail", f"mkdir -p {folder}", f"rm -f {status}", "jobs="]
    for number in range(len(run.batches)):
        sbatch = f"sbatch --parsable --output={folder}/%x_%a.log"
        lines += [
            f"job=$({sbatch} <<'{_END}'",
            array(run, number) + _END,
            ")",
            "jobs+=:$(grep -oE '^[0-9]+' <<<\"$job\" | tail -n 1)",
        ]
    sbatch = f"sbatch --parsable --dependency=afterany$jobs --output={folder}/%x.log"
    return "\n".join([*lines, f"{sbatch} <<'{_END}'", report(run) + _END]) + "\n"


def _apptainer(image: str, folders: Sequence[str], root: str) -> list[str]:
    binds = [word for folder in folders for word in ("--bind", folder)]
    return ["apptainer", "exec", *binds, "--pwd", root, image]


def _charliecloud(image: str, folders: Sequence[str], root: str) -> list[str]:
    binds = [f"--bind={folder}" for folder in folders]
    return ["ch-run", "--set-env", *binds, f"--cd={root}", image, "--"]


def _podman(image: str, folders: Sequence[str], root: str) -> list[str]:
    binds = [f"--volume={folder}:{folder}" for folder in folders]
    run = ["podman", "run", "--rm", "--init", "--userns=keep-id", "--read-only", "--entrypoint=", f"--workdir={root}"]
    return [*run, "--env=KERNEL_MATRIX_*", "--env=SLURM*", *binds, image]


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


def inside(run: ClusterRun, batch: Batch) -> Iterator[str]:
    """Yield the words before a row's command that run it inside of the image of its batch; none without an image."""
    ask = batch.ask
    if not ask.image:
        return
    words = _LINES[ask.runtime](ask.image, run.folders, run.root)
    if (flags := vendor_named(batch.device).image_flags.get(ask.runtime, "") if batch.device else "") and ask.gres:
        words[_IMAGE_IS_LAST[ask.runtime] : _IMAGE_IS_LAST[ask.runtime]] = flags.split()
    yield shlex.join([*_CLEAN, *words])


def before(run: ClusterRun, batch: Batch) -> Iterator[str]:
    """Yield the lines of shell that an image needs before a row: Charliecloud makes no places to mount something."""
    if batch.ask.image and batch.ask.runtime == "charliecloud":
        folders = [copied.HERE] if run.disk else map(shlex.quote, run.folders)
        yield " ".join(["mkdir -p", *(shlex.quote(batch.ask.image) + folder for folder in folders)])
