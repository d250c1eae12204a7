"""The fork server of the sandbox: PyTorch is imported once, and each candidate is a fork that confines itself.

It knows no task, no seed and no reference, so there is nothing in its memory to steal. Its argument is JSON: which
sandbox it is to make, and what to import. Its standard input is the judge's socket. A request is JSON with two
descriptors: the candidate's own socket, and the end of a pipe for the status of its process.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import shutil
import socket
import sys
import tempfile
from typing import Any

from kernel_matrix.job import worker
from kernel_matrix.job.processes import orphans_of
from kernel_matrix.tools.verify.inside import confine

_KEPT = ("TRITON_INTERPRET", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")


def main() -> None:
    """Warm up, say so, and fork for each request until the judge closes its socket."""
    settings = json.loads(sys.argv[1])
    sys.argv[:] = ["main.py"]
    judge = socket.socket(fileno=os.dup(0))
    _to_nowhere(0)
    judge.send(json.dumps(_warm_up(settings)).encode())
    while True:
        request, descriptors = _received(judge)
        if not request:
            return
        if os.fork() == 0:
            judge.close()
            _candidate(settings, json.loads(request), *descriptors)
        for one in descriptors:
            os.close(one)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _warm_up(settings: dict[str, Any]) -> dict[str, Any]:
    """Import what candidates import, and let ATen look at the processor: without /proc it would run scalar code."""
    import torch

    from kernel_matrix.tools.verify.inside import candidate

    candidate.ready()
    for name in settings["modules"]:
        with contextlib.suppress(Exception):  # the candidate that imports it gets the error
            __import__(name)
            if name == "triton":
                from kernel_matrix.tools.verify.inside import interpreted

                interpreted.complete()
    # What takes seconds, and a first call would import. Autograd begins with all cards: no fork can use one after that.
    if settings["warm"] and not settings["devices"]:
        ones = torch.ones(2, requires_grad=True)
        torch.autograd.grad([ones.sin()], [ones], [ones])
        torch.use_deterministic_algorithms(True)
        torch.use_deterministic_algorithms(False)
    torch.set_num_threads(1)
    torch.nn.functional.conv2d(torch.randn(1, 4, 16, 16), torch.randn(4, 4, 3, 3)) @ torch.randn(14, 14)
    torch.randn(64).exp().sum()
    return {"torch": torch.__version__, "triton": getattr(sys.modules.get("triton"), "__version__", "")}


def _received(judge: socket.socket) -> tuple[bytes, list[int]]:
    message, ancillary, _, _ = judge.recvmsg(65536, socket.CMSG_SPACE(8))
    descriptors = array.array("i")
    for _, _, data in ancillary:
        descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return message, list(descriptors)


def _candidate(settings: dict[str, Any], limits: dict[str, int], own: int, status: int) -> None:
    """Be the parent of a candidate's process: enter the namespaces, wait for it, and tell how it ended."""
    told: dict[str, Any] = {}
    folder = ""
    try:
        drops = settings["drops"] and os.getuid() == 0 and limits.get("loose", 0) < confine.SAME_USER
        user = confine.some_user() if drops else os.getuid()
        if settings["alone"]:
            folder = tempfile.mkdtemp(prefix="kernel-matrix-verify-")
            os.chown(folder, user, -1)
            confine.adopt_orphans()
            os.setsid()
        else:
            confine.enter_namespaces()
        if (first := os.fork()) == 0:
            os.close(status)
            _serve(settings, limits, own, folder, user)
        os.close(own)
        _, code, usage = os.wait4(first, 0)
        if settings["alone"]:
            orphans_of(None)
        ended = os.waitstatus_to_exitcode(code)
        told = {"exit": ended, "rss": usage.ru_maxrss, "cpu": usage.ru_utime + usage.ru_stime}
    except BaseException as error:
        told = {"fatal": repr(error)}
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    os.write(status, json.dumps(told).encode())
    os._exit(0)


def _serve(settings: dict[str, Any], limits: dict[str, int], own: int, folder: str, user: int) -> None:
    """Confine this process, say so, and answer the judge's calls until it closes the socket."""
    try:
        kind = _confined(settings, limits, folder, user)
        os.closerange(3, own)
        os.closerange(own + 1, 256)
        stream = socket.socket(fileno=own)
        stream.send(json.dumps(kind).encode())
        calls, answers = stream.makefile("rb", buffering=0), stream.makefile("wb")
        worker.serve(calls, answers)
        os._exit(0)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(own, json.dumps({"fatal": repr(error)}).encode())
        os._exit(70)


def _confined(settings: dict[str, Any], limits: dict[str, int], folder: str, user: int) -> dict[str, Any]:
    """Confine this process, and return what holds it."""
    devices, version, proc = bool(settings["devices"]), 0, True
    for number in (0, 1, 2):
        _to_nowhere(number)
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    home, loose = folder if settings["alone"] else confine.HOME, limits.get("loose", 0)
    if settings["alone"]:
        writable = [home, "/dev/null", "/dev/zero", *settings["devices"], *(["/proc/self"] if devices else [])]
        readable = [*settings["readable"], "/dev/urandom", "/dev/random"]
        version = confine.landlock(readable, writable)
        if not version:
            raise OSError("Linux has no Landlock here")
    else:
        proc = confine.own_places(limits, user, devices=devices)
    own = confine.leave_root(user) if user != os.getuid() else user != 0
    os.chdir(home)
    os.environ.clear()
    programs = f"{os.path.dirname(sys.executable)}:/usr/local/bin:/usr/bin:/bin"  # noqa: PTH120 (ninja is beside Python)
    os.environ.update(
        {
            "PATH": programs,
            "CUDA_MPS_PIPE_DIRECTORY": f"{home}/mps",
            "HOME": home,
            "TMPDIR": home,
            "LANG": "C.UTF-8",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # else processes of PyTorch's compiler work on beside the candidate
            **kept,
        }
    )
    os.environ.update(
        {"OMP_NUM_THREADS": "1", "TRITON_CACHE_DIR": f"{home}/triton", "USER": "candidate", "LOGNAME": "candidate"}
    )
    tempfile.tempdir = None
    confine.limit(limits, devices=devices, few=loose >= confine.FEW_LIMITS)
    if loose < confine.NO_FILTER:
        confine.seccomp(alone=settings["alone"], sockets=loose >= confine.SOCKETS)
    return {"landlock": version, "processes": own, "user": os.getuid(), "proc": proc}


def _to_nowhere(number: int) -> None:
    nowhere = os.open("/dev/null", os.O_RDWR)
    os.dup2(nowhere, number)
    os.close(nowhere)


if __name__ == "__main__":
    main()
