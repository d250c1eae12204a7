"""Start a Slurm cluster of two nodes on this machine, and a third one that is down: as root, without systemd."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = ("/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/sbatch")
INSTALL = "apt-get install --no-install-recommends slurm-wlm munge"
# The nodes: a character device stands for a GPU, which is enough to count them.
NODES = {"km-a": "sm_90", "km-b": "gfx942", "km-down": "sm_100"}
_CONF = """
ClusterName=km
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill,NoShared
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,defer_batch,batch_sched_delay=0
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdTimeout=4
MessageTimeout=4
KillWait=10
MinJobAge=300
GresTypes=gpu
SlurmdParameters=config_overrides
{nodes}
PartitionName=all Nodes=km-a,km-b,km-down Default=YES MaxTime=30 State=UP
PartitionName=short Nodes=km-a MaxTime=2 State=UP
PartitionName=urgent Nodes=km-b PriorityTier=10 PreemptMode=OFF State=UP
"""


def demand_slurm() -> None:
    """Skip the test where Slurm is not installed, or this is not root."""
    if os.getuid() != 0 or not all(map(os.path.exists, PROGRAMS)):
        pytest.skip(f"it starts a Slurm cluster as root: {INSTALL}")


@dataclass
class Cluster:
    """A cluster that runs."""

    folder: Path
    login: Path | None = None  # a folder that nodes do not see

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def variables(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def ask(self, *words: str) -> str:
        return subprocess.run(words, env=self.variables, capture_output=True, text=True, check=True).stdout

    def begin(self, program: str, *words: str) -> None:
        subprocess.run([f"/usr/sbin/{program}", *words], env=self.variables, check=True, capture_output=True)

    @property
    def disk(self) -> Path:
        """A folder that is another one on each node."""
        return self.folder / "disk"

    def start_node(self, name: str) -> None:
        """Start a node, which has folders of its own in place of some."""
        own = [f"mount -t tmpfs none {folder}" for folder in (self.disk, self.login) if folder] if self.login else []
        words = ["unshare", "--mount", "bash", "-c"]
        slurmd = f"exec /usr/sbin/slurmd -N {name} -f {self.conf}"
        subprocess.run([*words, " && ".join([*own, slurmd])], env=self.variables, check=True, capture_output=True)

    def start_controller(self) -> None:
        self.begin("slurmctld", "-f", str(self.conf))

    def end(self, name: str, number: int = signal.SIGKILL) -> None:
        """End a daemon by the id in its file, and wait until it is gone."""
        file = self.folder / f"{name}.pid"
        with suppress(OSError, ValueError):
            pid = int(file.read_text())
            os.kill(pid, number)
            for _ in range(100):
                if not Path(f"/proc/{pid}").exists() or "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
                    break
                time.sleep(0.05)
        file.unlink(missing_ok=True)

    def fail(self, node: str) -> None:
        """Let a node die: its daemon, what watches over its jobs, and all of their processes."""
        self.end(f"slurmd-{node}")
        for one in below_steps(f"SLURMD_NODENAME={node}"):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)

    def tell_down(self, node: str) -> None:
        """Tell the controller that a node is down, as a monitor does. It would see so itself some seconds later."""
        self.ask("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")

    def wait_for(self, nodes: int) -> None:
        """Wait until so many nodes take jobs."""
        for _ in range(200):
            with suppress(subprocess.CalledProcessError):
                if self.ask("sinfo", "-h", "-N", "-p", "all", "-o", "%t").split().count("idle") == nodes:
                    return
            time.sleep(0.1)
        raise AssertionError(self.ask("sinfo") + (self.folder / "slurmctld.log").read_text()[-2000:])


def below_steps(variable: str) -> list[int]:
    """Return what watches over the jobs that have a variable in their environment, and all processes below it."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    children: dict[int, list[int]] = defaultdict(list)
    steps = []
    for pid, parent, name in (line.split(None, 2) for line in listed.splitlines()):
        children[int(parent)].append(int(pid))
        steps += [int(pid)] if name.startswith("slurmstepd") else []

    def below(pid: int) -> Iterator[int]:
        for child in children[pid]:
            yield child
            yield from below(child)

    return [one for step in steps for tree in [[step, *below(step)]] if any(map(has(variable), tree)) for one in tree]


def has(variable: str) -> Callable[[int], bool]:
    """Return a function that returns whether a process has a variable in its environment."""

    def asked(pid: int) -> bool:
        try:
            return variable.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False

    return asked


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def cluster(folder: Path, login: Path | None = None) -> Iterator[Cluster]:
    """Start a cluster in an empty folder, and end all of it. Its nodes do not see the folder ``login``."""
    made = Cluster(folder, login)
    host = socket.gethostname().partition(".")[0]
    for name in ("run", "state", "munge", "gpu", "disk", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir(parents=True)
    nodes, gres = [], []
    for node, kind in NODES.items():
        os.mknod(folder / "gpu" / node, 0o020666, os.makedev(1, 3))
        nodes.append(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=5 RealMemory=6000 "
            f"Gres=gpu:{kind}:1 Feature=x64,{kind}"
        )
        gres.append(f"NodeName={node} Name=gpu Type={kind} File={folder}/gpu/{node}")
    made.conf.write_text(_CONF.format(host=host, port=free_port(), folder=folder, nodes="\n".join(nodes)))
    (folder / "gres.conf").write_text("\n".join(gres) + "\n")
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    for path, mode in ((folder, 0o755), (folder / "munge", 0o700), (key, 0o400)):
        path.chmod(mode)
    files = {"key-file": key, "socket": folder / "run" / "munge.socket", "pid-file": folder / "munged.pid"}
    files |= {name: folder / "munge" / name for name in ("log-file", "seed-file")}
    try:
        made.begin("munged", "--force", *(f"--{name}={path}" for name, path in files.items()))
        made.begin("slurmctld", "-c", "-f", str(made.conf))
        for node in ("km-a", "km-b"):
            made.start_node(node)
        made.wait_for(2)
        yield made
    finally:
        with suppress(subprocess.CalledProcessError):
            made.ask("scancel", "--user=root")
        for node in NODES:
            made.fail(node)
        made.end("slurmctld")
        made.end("munged")
        shutil.rmtree(folder, ignore_errors=True)
