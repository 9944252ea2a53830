"""
Take from this process what it may open and ask for, on Linux.

What reads a tenant's source or renders a template is the same user as the worker, who
may read the secrets: to become another user takes a right that neither has. But a
process may always give up its own: what it opens (Landlock, from 5.13 on), and calls
that Landlock does not count, such as sockets (seccomp). Where the kernel or a
container's profile does not know these, it keeps its rights.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

#: The same number on every architecture: create a ruleset, add to it, obey it.
_CREATE, _ADD, _RESTRICT = 444, 445, 446

#: What there is to open files by, in the order in which kernels learnt it: execute,
#: write, read, list, remove and make; then to move elsewhere, and to cut off.
_FIRST, _REFER, _TRUNCATE = (1 << 13) - 1, 1 << 13, 1 << 14
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_READ, _OF_FILES = _READ_FILE | _READ_DIR, _WRITE_FILE | _READ_FILE | _TRUNCATE

#: To listen on TCP and connect; then to reach others by abstract sockets and signals.
#: Versions of the interface from which on they are known.
_NETWORK, _KNOWS_NETWORK = 3, 4
_OTHERS, _KNOWS_OTHERS = 3, 6

#: Python and what it loads, time zones, and what Polars looks at before it begins. Not
#: all that is imported from: a checkout has settings and secrets beside it.
_OWN = (
    *(sys.prefix, sys.base_prefix, "/lib", "/lib64", "/usr/lib", "/usr/local/lib"),
    *(each for each in sys.path if each.endswith("-packages")),
    *("/etc/ld.so.cache", "/usr/share/zoneinfo", "/sys"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo"),
)

_VERSION_FLAG, _BENEATH, _NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 1, 1, 38, 22, 2

#: A machine as a filter sees it; its numbers of clone and prlimit64; and of calls that
#: are refused: sockets (also a pair, one of which could be led elsewhere), io_uring,
#: modes, owners, times and attributes of files, priorities, processors, namespaces, new
#: processes, memory and keys that stay.
_CALLS = {
    "x86_64": (
        *(0xC000003E, 56, 302),
        *(41, 53, 425, 90, 91, 268, 452, 92, 93, 94, 260, 132, 235, 261, 280),
        *(141, 142, 144, 203, 251, 272, 314, 57, 58, 29, 64, 68, 248, 250),
        *(188, 189, 190, 197, 198, 199, 463, 466),
    ),
    "aarch64": (
        *(0xC00000B7, 220, 261),
        *(198, 199, 425, 52, 53, 452, 54, 55, 88, 140, 118, 119, 122, 274, 30, 97),
        *(186, 190, 194, 217, 219, 5, 6, 7, 14, 15, 16, 463, 466),
    ),
}

#: Instructions of a filter: load, compare and skip, return; where it finds number,
#: machine and first argument of a call; and what it returns.
_LOAD, _EQUALS, _REACHES, _HAS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _ARGUMENT = 0, 4, 16
_ALLOWED, _REFUSED = (_RETURN, 0, 0, 0x7FFF0000), (_RETURN, 0, 0, 0x50000 | errno.EPERM)
#: So that a thread is begun by clone, whose flags a filter can read.
_UNKNOWN = (_RETURN, 0, 0, 0x50000 | errno.ENOSYS)
_THREAD, _OTHER_NUMBERS, _CLONE3 = 1 << 16, 1 << 30, 435


def find_version() -> int:
    """Return the version of what the kernel knows of this; below 1: nothing."""
    if not sys.platform.startswith("linux"):
        return 0
    system = ctypes.CDLL(None, use_errno=True)
    found: int = system.syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION_FLAG)
    return found


def confine(*, readable: Iterable[Path] = (), writable: Iterable[Path] = ()) -> bool:
    """
    Let this thread, and those it begins, open nothing more but what is given.

    What is open stays open. Python, its packages and time zones can be read; no program
    is started, no process or socket made, and no other process seen or sent a signal.

    Args:
        readable: Files and folders that can be read, with what is in them.
        writable: The same, and written.

    Returns:
        Whether that is so: False if this system knows no such thing.
    """
    if not sys.platform.startswith("linux"):
        return False
    system = ctypes.CDLL(None, use_errno=True)
    obeys: bool = system.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    _refuse_calls(system)
    version = find_version()
    if version < 1:
        return False
    files = _FIRST | (_REFER if version > 1 else 0) | (_TRUNCATE if version > 2 else 0)
    handled = struct.pack("=Q", files)
    if version >= _KNOWS_NETWORK:
        handled += struct.pack("=Q", _NETWORK)
    if version >= _KNOWS_OTHERS:
        handled += struct.pack("=Q", _OTHERS)
    ruleset = system.syscall(_CREATE, handled, ctypes.c_size_t(len(handled)), 0)
    if ruleset < 0:
        return False
    for path in (*map(Path, _OWN), *readable):
        _allow(system, ruleset, path, _READ)
    for path in writable:
        _allow(system, ruleset, path, files & ~_EXECUTE)
    obeys = obeys and system.syscall(_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return obeys


def _refuse_calls(system: ctypes.CDLL) -> None:
    """Refuse _CALLS from now on, if they are known of this machine."""
    calls = _CALLS.get(platform.machine())
    if calls is None or sys.maxsize < 1 << 32:
        return
    machine, clone, limit, *refused = calls
    steps = [
        *((_LOAD, 0, 0, _MACHINE), (_EQUALS, 1, 0, machine), _REFUSED),
        *((_LOAD, 0, 0, _NUMBER), (_REACHES, 0, 1, _OTHER_NUMBERS), _REFUSED),
    ]
    for each in refused:
        steps += (_EQUALS, 0, 1, each), _REFUSED
    steps += (_EQUALS, 0, 1, _CLONE3), _UNKNOWN
    # Threads of its own, and its own limits.
    for number, test in (clone, (_HAS, 0, 1, _THREAD)), (limit, (_EQUALS, 0, 1, 0)):
        steps += (_EQUALS, 0, 4, number), (_LOAD, 0, 0, _ARGUMENT)
        steps += test, _ALLOWED, _REFUSED
    steps.append(_ALLOWED)
    code = b"".join(struct.pack("HBBI", *each) for each in steps)
    held = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HP", len(steps), ctypes.addressof(held))
    system.prctl(_SECCOMP, _FILTER, program, 0, 0)


def _allow(system: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    """Allow *rights* to *path* and what is beneath; what is not there needs none."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rule = struct.pack(
            "=Qi", rights if path.is_dir() else rights & _OF_FILES, place
        )
        system.syscall(_ADD, ruleset, _BENEATH, rule, 0)
    finally:
        os.close(place)
