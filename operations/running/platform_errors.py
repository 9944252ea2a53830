"""
Recognize errors of the platform: of the machine, its disks and our folders.

They are not the fault of the action, so the action waits instead of failing.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import PlatformError, StepError, UnreachableError

#: Errors of writing; a step can write only into our own folders.
_OF_WRITING = {
    errno.ENOSPC: "is full",
    errno.EDQUOT: "is full (its quota is used up)",
    errno.EFBIG: "does not accept a file that large",
    errno.EROFS: "is read-only",
}

#: Errors of this process and its machine, whatever was opened.
_OF_THE_MACHINE = {
    errno.ENOMEM: "the worker is out of memory",
    errno.EMFILE: "the worker has too many files open",
    errno.ENFILE: "the worker's host has too many files open",
}

#: The end of file errors in Rust, and so in Polars, perhaps with the path.
_RUST = re.compile(r"\(os error (\d+)\)(?:: (.*))?$")

#: Content of a test file; too large for a disk with only a few bytes left.
_PROBE = bytes(1 << 16)


def find_platform_error(
    error: BaseException, *, folder: Path | None = None
) -> PlatformError | None:
    """
    Return what is wrong with the platform, if that caused *error*.

    Args:
        error: The error; its causes are examined, too.
        folder: Of the workspace, which was written to or read from. None: unknown.

    Returns:
        None if the platform is not the cause, or the cause is unknown.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, PlatformError):
            return cause
        if isinstance(cause, MemoryError):
            return PlatformError(_OF_THE_MACHINE[errno.ENOMEM])
        number = _find_number(cause)
        if number in _OF_THE_MACHINE:
            return PlatformError(_OF_THE_MACHINE[number])
        where = "the disk" if folder is None else f"the workspace {folder}"
        if number in _OF_WRITING:
            return PlatformError(f"{where} {_OF_WRITING[number]}")
        # The error may also come from a source on another disk.
        if (
            number is not None
            and folder is not None
            and (_names(cause, folder) or not _serves(folder))
        ):
            return PlatformError(f"{where} cannot be used: {os.strerror(number)}")
        cause = cause.__cause__
    return None


def _find_number(error: BaseException) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = _find_rust(error)
    return None if found is None else int(found[1])


def _find_rust(error: BaseException) -> re.Match[str] | None:
    # Other errors may quote a source, which may contain anything.
    if isinstance(error, OSError) or type(error).__module__.startswith("polars"):
        return _RUST.search(str(error).partition("\n")[0])
    return None


def _names(error: BaseException, folder: Path) -> bool:
    names = [getattr(error, "filename", None), getattr(error, "filename2", None)]
    if any(isinstance(n, str | Path) and Path(n).is_relative_to(folder) for n in names):
        return True
    found = _find_rust(error)
    return found is not None and (found[2] or "").startswith(f"{folder}{os.sep}")


def _serves(folder: Path) -> bool:
    """Return whether a file can be written into *folder* now."""
    probe = folder / f".probe-{os.getpid()}.part"
    try:
        probe.write_bytes(_PROBE)
        probe.unlink()
    except OSError:
        return False
    return True


@contextmanager
def blaming_platform(folder: Path) -> Iterator[None]:
    """Turn errors of *folder*, which is of the workspace, into PlatformError."""
    try:
        yield
    except (MemoryError, OSError, StepError) as error:
        ours = find_platform_error(error, folder=folder)
        if ours is None or ours is error:
            raise
        raise ours from error


def describe_ours(error: Exception) -> str | None:
    """Return what is wrong with the platform or its database, if that is the cause."""
    if isinstance(error, UnreachableError):
        return str(error)
    ours = find_platform_error(error)
    return None if ours is None else str(ours)
