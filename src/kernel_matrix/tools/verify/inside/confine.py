"""Confine a process that is about to run a candidate: namespaces, Landlock, seccomp, limits, no capabilities.

Each step is one-way. Which of them Linux grants is the sandbox's kind, and the verdict says it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import struct
from collections.abc import Mapping, Sequence

HOME = "/w"  # the one folder that a candidate may write

_NEW_NS, _NEW_UTS, _NEW_IPC, _NEW_USER, _NEW_PID, _NEW_NET = 0x20000, 0x4000000, 0x8000000, 1 << 28, 1 << 29, 1 << 30
_READ_ONLY, _NO_SUID, _NO_DEV, _NO_EXEC, _PRIVATE = 1, 2, 4, 8, 1 << 18 | 1 << 14  # mount(2)
_SET_DUMPABLE, _SET_SECCOMP, _CAP_DROP, _NO_NEW_PRIVS, _SUBREAPER = 4, 22, 24, 38, 36  # prctl(2)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # landlock(7)
_READ = 1 | 1 << 2 | 1 << 3  # run a file, read one, list a folder
_TRUNCATE = 1 << 14
_X86_64 = 0xC000003E

# Calls of x86-64 that no kernel needs: ptrace, process_vm_*, unshare, setns, the mount calls, bpf, perf_event_open,
# userfaultfd, io_uring_*, keys, kexec_load, open_by_handle_at, pidfd_getfd, kcmp, personality, prlimit64 on others.
_REFUSED = (101, 310, 311, 272, 308, 165, 166, 155, 321, 298, 323, 425, 426, 427, 250, 248, 249, 246, 304, 438, 312,
            135, 428, 429, 430, 431, 432, 433, 442)  # fmt: skip
_SOCKET, _CONNECT, _BIND, _CLONE, _CLONE3, _KILL, _TKILL, _TGKILL, _PRLIMIT = 41, 42, 49, 56, 435, 62, 200, 234, 302
_EPERM, _ENOSYS, _ALLOW, _END = 0x00050001, 0x00050026, 0x7FFF0000, 0x80000000

_NOBODY_THERE, _NO_FAMILY = 0x00050000 | 111, 0x00050000 | 97  # what a program expects where nobody answers

# How loose a sandbox is: each of these leaves one more thing open, for a GPU's library that does not begin otherwise.
SOCKETS, NO_FILTER, FEW_LIMITS, SAME_USER = 1, 2, 3, 4
LOOSE = {
    SOCKETS: "a filter of sockets and signals",
    NO_FILTER: "a filter of system calls",
    FEW_LIMITS: "limits of files and processes",
    SAME_USER: "a user of its own, where root judges",
}
# What a GPU's library reads: of the processes in /proc its own one alone, and never a home or the judge's folders.
_OF_PROC = "self driver sys cpuinfo devices filesystems meminfo modules stat version"
_OF_DRIVERS = ("/etc/nvidia", "/etc/OpenCL", "/run/nvidia-persistenced", "/opt/amdgpu")
OF_DEVICES = ("/sys", *_OF_DRIVERS, *(f"/proc/{name}" for name in _OF_PROC.split()))

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> None:
    """Call a function of the C library.

    Raises:
        OSError: it failed.
    """
    if getattr(_libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def some_user() -> int:
    """Return the number of a user that most likely is nobody else: of the upper half of those that are here."""
    with open("/proc/self/uid_map") as file:  # noqa: PTH123 (pathlib need not be there yet)
        count, first = max((int(line.split()[2]), int(line.split()[0])) for line in file)
    most = min(count, 1 << 31)
    return first + most // 2 + int.from_bytes(os.urandom(4), "little") % (most - most // 2)


def leave_root(user: int) -> bool:
    """Become another user where this is root: only then a limit of processes holds. Return whether it is so."""
    if os.getuid() == 0:
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        except OSError:
            return False
        _libc.prctl(_SET_DUMPABLE, 1, 0, 0, 0)  # else its own files in /proc belong to root
    return os.getuid() != 0


def enter_namespaces() -> None:
    """Give this process, which has one thread, namespaces of its own; its next child is the first process in them.

    Root needs no namespace of users for that, which some systems refuse.
    """
    user, group = os.getuid(), os.getgid()
    call("unshare", _NEW_NS | _NEW_UTS | _NEW_IPC | _NEW_PID | _NEW_NET | (_NEW_USER if user else 0))
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 (pathlib need not be there yet)
                file.write(text)
    call("mount", None, b"/", None, ctypes.c_ulong(_PRIVATE), None)


def own_places(limits: Mapping[str, int], user: int, *, devices: bool) -> bool:
    """Mount an empty folder to write in, and an empty /dev/shm: a shared one is a channel to the next candidate.

    They belong to the candidate's user.

    A GPU's library needs /proc: one with the processes of these namespaces alone, or where Linux refuses that
    the one of all candidates. Return whether it is an own one. Without a GPU it is empty.
    """
    own = f"mode=700,uid={user},gid={user}"
    _mount("tmpfs", HOME, _NO_SUID | _NO_DEV, f"size={limits['disk']}m,{own}")
    _mount("tmpfs", "/dev/shm", _NO_SUID | _NO_DEV, f"size=64m,{own}")  # noqa: S108
    if not devices:
        _mount("tmpfs", "/proc", _READ_ONLY | _NO_SUID | _NO_DEV | _NO_EXEC, "size=4k")
        return True
    try:
        _mount("proc", "/proc", _NO_SUID | _NO_DEV | _NO_EXEC, None)
    except PermissionError:  # a part of /proc is hidden here, as in most containers
        return False
    return True


def _mount(kind: str, target: str, flags: int, data: str | None) -> None:
    call("mount", kind.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data and data.encode())


def landlock(readable: Sequence[str], writable: Sequence[str]) -> int:
    """Allow these paths and nothing else; return the version of Landlock, which is 0 where there is none."""
    syscall = _libc.syscall
    syscall.restype = ctypes.c_long
    version = int(syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_long(0), ctypes.c_long(1)))
    if version < 1:
        return 0
    every = (1 << {1: 13, 2: 14}.get(version, 15)) - 1
    network, scopes = (3 if version >= 4 else 0), (3 if version >= 6 else 0)  # of addresses; of signals and sockets
    attributes = struct.pack("=QQQ", every, network, scopes)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules = int(syscall(ctypes.c_long(_CREATE_RULESET), attributes, ctypes.c_long(len(attributes)), ctypes.c_long(0)))
    of_files = every & (7 | _TRUNCATE)
    for paths, access in ((readable, _READ), (writable, every)):
        for path in paths:
            with contextlib.suppress(OSError):
                file = os.open(path, os.O_PATH | os.O_CLOEXEC)
                allowed = access if os.path.isdir(path) else access & of_files  # noqa: PTH112
                rule = struct.pack("=Qi", allowed, file)
                syscall(ctypes.c_long(_ADD_RULE), ctypes.c_long(rules), ctypes.c_long(1), rule, ctypes.c_long(0))
                os.close(file)
    _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    held = syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_long(rules), ctypes.c_long(0)) == 0
    os.close(rules)
    return version if held else 0


def limit(limits: Mapping[str, int], *, devices: bool, few: bool = False) -> None:
    """Set the limits of memory, CPU time, processes, files; drop all capabilities; hide this process's memory."""
    wanted = {
        "CPU": limits["cpu"],
        "NPROC": limits["processes"],
        "FSIZE": limits["disk"] << 20,
        "NOFILE": 256,
        "CORE": 0,
        **({} if devices else {"AS": limits["memory"] << 20}),  # a GPU's library maps more than there is
    }
    for name, value in wanted.items() if not few else [("CPU", limits["cpu"]), ("CORE", 0)]:
        which = getattr(resource, f"RLIMIT_{name}")
        most = resource.getrlimit(which)[1]
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(which, (value, value))
    for capability in range(64):
        _libc.prctl(_CAP_DROP, capability, 0, 0, 0)
    call("capset", ctypes.c_char_p(struct.pack("Ii", 0x20080522, 0)), ctypes.c_char_p(bytes(24)))
    if not devices:
        _libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of what a child of this process leaves behind."""
    _libc.prctl(_SUBREAPER, 1, 0, 0, 0)


def seccomp(*, alone: bool, sockets: bool = False) -> None:
    """Refuse system calls that a kernel never needs; ``alone`` says that no namespace keeps others away.

    ``sockets`` leaves sockets and signals to others alone.

    A socket is one of this machine's processes at most. clone3 says that it does not exist, so that the C library uses
    clone, whose flags a filter can see.
    """
    lines = [_op(0x20, 0, 0, 4), _op(0x15, 1, 0, _X86_64), _op(0x06, 0, 0, _END), _op(0x20, 0, 0, 0)]
    lines += [_op(0x35, 0, 1, 0x40000000), _op(0x06, 0, 0, _END)]  # the calls of x32
    alone = alone and not sockets
    refused = dict.fromkeys(_REFUSED, _EPERM) | (
        {_CONNECT: _NOBODY_THERE, _BIND: _EPERM, _TKILL: _EPERM} if alone else {}
    )
    for number, answer in refused.items():
        lines += [_op(0x15, 0, 1, number), _op(0x06, 0, 0, answer)]
    lines += [_op(0x15, 0, 1, _CLONE3), _op(0x06, 0, 0, _ENOSYS)]
    lines += ([] if sockets else _unless(_SOCKET, 1, _NO_FAMILY)) + _unless(_PRLIMIT, 0)
    if alone:
        lines += _unless(_KILL, os.getpid()) + _unless(_TGKILL, os.getpid())
    lines += [_op(0x15, 0, 4, _CLONE), _op(0x20, 0, 0, 16), _op(0x45, 0, 1, _NEW_USER), _op(0x06, 0, 0, _EPERM)]
    lines += [_op(0x06, 0, 0, _ALLOW), _op(0x06, 0, 0, _ALLOW)]
    program = ctypes.create_string_buffer(b"".join(lines))
    described = struct.pack("HxxxxxxQ", len(lines), ctypes.addressof(program))
    call("prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)
    call("prctl", _SET_SECCOMP, 2, ctypes.c_char_p(described), 0, 0)


def _unless(number: int, first: int, answer: int = _EPERM) -> list[bytes]:
    """Return the instructions that refuse a call whose first argument is another number."""
    return [
        _op(0x15, 0, 4, number),
        _op(0x20, 0, 0, 16),
        _op(0x15, 1, 0, first),
        _op(0x06, 0, 0, answer),
        _op(0x20, 0, 0, 0),
    ]


def _op(code: int, then: int, otherwise: int, value: int) -> bytes:
    return struct.pack("HBBI", code, then, otherwise, value)
