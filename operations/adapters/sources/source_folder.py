"""
Open the files that tenants name, but only below their app's folder.

The path is walked one name at a time from the open folder. The kernel never follows a
symbolic link: links are read here and walked in the same way. So nothing outside of the
folder is ever opened, even if the folder changes while we walk.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from models.errors import StepError

#: Symbolic links in one path: as many as Linux follows.
_MOST_LINKS = 40

#: O_PATH does not need the right to list a folder, and never opens a device.
_FOLDER = (
    getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
)
#: Without O_NONBLOCK, opening a named pipe would block.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_Identity = tuple[int, int]


def open_source_file(folder: Path, file: str, *, private: Iterable[Path] = ()) -> int:
    """
    Open *file* below *folder* for reading; return its descriptor.

    Args:
        folder: Absolute, without symbolic links, as ``apps apply`` stored it.
        file: As the tenant wrote it, relative to *folder*.
        private: Minutehand's own files and folders, which may lie below *folder* but
            must never be a source.

    Raises:
        StepError: Permanent: *file* leads elsewhere, is hidden, or is not a regular
            file.
        OSError: The file system failed.
    """
    walk = _Walk(folder, file, private)
    with walk.opened:
        return walk.open()


class _Walk:
    """One walk along one path."""

    def __init__(self, folder: Path, file: str, private: Iterable[Path]) -> None:
        self.opened = ExitStack()
        self._folder = folder
        self._file = file
        self._private = frozenset(_identify_all(private))
        self._links = 0

    def open(self) -> int:
        """Return the descriptor of the file."""
        root = self._open_root()
        above = [root]
        todo = deque(_split(self._make_relative(self._file)))
        while todo:
            name = todo.popleft()
            if name == "..":
                above.pop()
                if not above:
                    raise self._refuse("leads out of the folder of the small app")
                continue
            # Kubernetes gives its mounts names that begin with two dots.
            if name.startswith(".") and not name.startswith(".."):
                reason = f"leads to {name!r}, which is hidden"
                raise self._refuse(reason)
            status = os.stat(name, dir_fd=above[-1], follow_symlinks=False)
            self._check_private(status)
            if stat.S_ISLNK(status.st_mode):
                text = self._read_link(name, above[-1])
                if PurePosixPath(text).is_absolute():
                    text, above = self._make_relative(text), [root]
                todo.extendleft(reversed(_split(text)))
            elif stat.S_ISDIR(status.st_mode) and todo:
                above.append(self._open_folder(name, above[-1]))
                self._check_private(os.fstat(above[-1]))
            elif stat.S_ISREG(status.st_mode):
                return self._open_file(name, above[-1], last=not todo)
            else:
                raise self._refuse("is not a regular file")
        raise self._refuse("is not a regular file")

    def _open_root(self) -> int:
        """Open the folder itself without following links, which could move it."""
        descriptor = os.open(self._folder.anchor or "/", _FOLDER)
        self.opened.callback(os.close, descriptor)
        for name in self._folder.parts[1:]:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                msg = (
                    f"the source folder {self._folder} leads through a symbolic link "
                    f"({name!r}) now. Apply the small app again with its folder."
                )
                raise StepError(msg, permanent=True)
            descriptor = self._open_folder(name, descriptor)
        return descriptor

    def _open_folder(self, name: str, above: int) -> int:
        descriptor = os.open(name, _FOLDER, dir_fd=above)
        self.opened.callback(os.close, descriptor)
        return descriptor

    def _open_file(self, name: str, above: int, *, last: bool) -> int:
        if not last:
            raise self._refuse("continues after the name of a file")
        descriptor = os.open(name, _FILE, dir_fd=above)
        try:
            self._check_opened(os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check_opened(self, status: os.stat_result) -> None:
        """Check the opened file again: the name may mean another file by now."""
        self._check_private(status)
        if not stat.S_ISREG(status.st_mode):
            raise self._refuse("is not a regular file")

    def _read_link(self, name: str, above: int) -> str:
        self._links += 1
        if self._links > _MOST_LINKS:
            raise self._refuse("leads through too many symbolic links")
        return os.readlink(name, dir_fd=above)

    def _make_relative(self, path: str) -> str:
        """Return *path*, relative to the folder if it is absolute."""
        if "\0" in path:
            raise self._refuse("contains a zero byte")
        pure = PurePosixPath(path)
        if not pure.is_absolute():
            return path
        if not pure.is_relative_to(self._folder):
            raise self._refuse("leads out of the folder of the small app")
        return str(pure.relative_to(self._folder))

    def _check_private(self, status: os.stat_result) -> None:
        if (status.st_dev, status.st_ino) in self._private:
            raise self._refuse("leads to Minutehand's own data")

    def _refuse(self, reason: str) -> StepError:
        return StepError(f"{self._file!r} {reason}.", permanent=True)


def _split(path: str) -> Sequence[str]:
    return [name for name in path.split("/") if name not in {"", "."}]


def _identify_all(paths: Iterable[Path]) -> Iterable[_Identity]:
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        yield status.st_dev, status.st_ino
