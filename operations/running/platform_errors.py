"""
Which errors are ours: of the machine, the disk and the folders that we run on.

They say nothing about the action that met them, so it waits instead of failing.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import PlatformError, StepError

#: Only what is written meets these, and a step writes only where we let it.
_OF_WRITING = {
    errno.ENOSPC: "is full",
    errno.EDQUOT: "is full (its quota)",
    errno.EFBIG: "takes no file that large",
    errno.EROFS: "is read-only",
}

#: Of this process and its machine, whatever was opened.
_OF_THE_MACHINE = {
    errno.ENOMEM: "the worker is out of memory",
    errno.EMFILE: "the worker has too many files open",
    errno.ENFILE: "the worker's host has too many files open",
}

#: How Rust, and so Polars, ends what it says of a file, maybe with its path.
_RUST = re.compile(r"\(os error (\d+)\)(?:: (.*))?$")

#: Enough that a disk with a few bytes left does not take it.
_PROBE = bytes(1 << 16)


def find_platform_error(
    error: BaseException, *, folder: Path | None = None, name: str = "disk"
) -> PlatformError | None:
    """
    Return what is wrong with us, if that is what *error* comes from.

    Args:
        error: Looked at with its causes.

        folder: Ours, which was written to or read from. None: nothing is known of it.

        name: What people call the folder, such as "workspace".

    Returns:
        None if it is not ours, or nobody can tell.
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
        where = f"the {name}" if folder is None else f"the {name} {folder}"
        if number in _OF_WRITING:
            return PlatformError(f"{where} {_OF_WRITING[number]}")
        # A source may lie on a disk as well, and be what is wrong.
        if (
            number is not None
            and folder is not None
            and (_names(cause, folder) or not _serves(folder))
        ):
            return PlatformError(f"{where} does not serve: {os.strerror(number)}")
        cause = cause.__cause__
    return None


def _find_number(error: BaseException) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = _find_rust(error)
    return None if found is None else int(found[1])


def _find_rust(error: BaseException) -> re.Match[str] | None:
    # Others may quote what a source says, which may be anything.
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
    """Tell whether *folder* takes a file now."""
    probe = folder / f".probe-{os.getpid()}.part"
    try:
        probe.write_bytes(_PROBE)
        probe.unlink()
    except OSError:
        return False
    return True


@contextmanager
def blaming_platform(folder: Path, name: str) -> Iterator[None]:
    """Turn errors that come from *folder*, which is ours, into PlatformError."""
    try:
        yield
    except (MemoryError, OSError, StepError) as error:
        ours = find_platform_error(error, folder=folder, name=name)
        if ours is None or ours is error:
            raise
        raise ours from error
