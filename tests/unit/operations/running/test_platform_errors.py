"""Whether an error is ours, or that of whoever asked."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from models.errors import PlatformError, StepError
from operations.running.platform_errors import blaming_platform, find_platform_error

FULL = "parquet: underlying IO error: No space left on device (os error 28)"


def make_step_error(cause: BaseException) -> StepError:
    """Return what an adapter raises from *cause*."""
    error = StepError("source x: no", permanent=True)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "is full"),
        (
            OSError(errno.EDQUOT, "Disk quota exceeded"),
            "is full (its quota is used up)",
        ),
        (OSError(errno.EROFS, "Read-only file system"), "is read-only"),
        (OSError(errno.EMFILE, "Too many open files"), "too many files open"),
        (MemoryError(), "out of memory"),
        (OSError(FULL), "is full"),
        (make_step_error(OSError(FULL)), "is full"),
        (make_step_error(OSError(errno.ENOSPC, "")), "is full"),
        (PlatformError("the workspace is away"), "is away"),
    ],
)
def test_what_only_our_side_can_meet_is_ours(error: BaseException, said: str):
    """Whoever says so, and however deep."""
    found = find_platform_error(error)

    assert found is not None
    assert said in str(found)
    assert not found.permanent


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file", "/srv/app/sales.csv"),
        OSError(errno.EIO, "Input/output error"),
        FileNotFoundError("No such file or directory (os error 2): /srv/sales.csv"),
        ValueError(FULL),
        OSError("cannot parse 'No space left on device (os error 28)' as a number"),
        StepError("the mail said (os error 28)", permanent=True),
    ],
)
def test_what_a_source_can_meet_is_not_ours_while_our_folder_serves(
    error: BaseException, tmp_path: Path
):
    """A missing file is for its app to mend."""
    assert find_platform_error(error, folder=tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda path: FileNotFoundError(errno.ENOENT, "No such file", f"{path}/x"),
        lambda path: FileNotFoundError(f"No such file (os error 2): {path}/x"),
        lambda path: OSError(errno.ESTALE, "Stale file handle", path / "a" / "x"),
    ],
)
def test_what_names_our_folder_is_ours(
    make: Callable[[Path], Exception], tmp_path: Path
):
    """Nobody else's files are there."""
    found = find_platform_error(make(tmp_path), folder=tmp_path)

    assert found is not None
    assert f"the workspace {tmp_path} cannot be used" in str(found)


def test_what_nobody_names_is_ours_if_our_folder_does_not_serve(tmp_path: Path):
    """A mount that is gone takes no file."""
    gone = tmp_path / "gone"

    with (
        pytest.raises(PlatformError, match="gone cannot be used: Input/output error"),
        blaming_platform(gone),
    ):
        raise OSError(errno.EIO, "Input/output error")
