"""Where an SQLite file may be kept: on a local disk, in a folder we may write to."""

from __future__ import annotations

import os
import re
from pathlib import Path

import sqlalchemy as sa

from models.errors import UnreachableError, UsageError

#: File systems whose locks SQLite cannot trust (sqlite.org/faq.html, question 5).
NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})


def find_sqlite_file(url: str) -> Path | None:
    """
    Return where the database at *url* is kept; None: it is not in a file of ours.

    >>> find_sqlite_file("sqlite:///data/minutehand.db")
    PosixPath('data/minutehand.db')
    >>> find_sqlite_file("postgresql://db.example.com/minutehand") is None
    True
    """
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    return Path(parsed.database)


def name_lock(path: Path) -> Path:
    """Return the file that ``minutehand up`` locks to be alone on *path*."""
    return Path(f"{path}.lock")


def prepare_place(path: Path) -> None:
    """
    Make the folder of the database *path* if the database may be kept there.

    Raises:
        UsageError: If it is on a network file system, or nothing can be written there.
            The message names the settings that place it.
    """
    _refuse_network_file_system(path)
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        reason = f"{folder} is not a folder"
    except OSError as error:
        reason = f"{folder} cannot be made ({error.strerror})"
    else:
        if not os.access(folder, os.W_OK | os.X_OK):
            reason = f"nothing can be written to {folder}"
        elif foreign := _find_foreign(path):
            reason = f"{foreign} is not a file, or it cannot be written to"
        else:
            return
    raise UsageError(
        f"{path} cannot be the database: {reason}. Set MINUTEHAND_HOME (or the path in"
        " MINUTEHAND_DATABASE_URL) to a folder that may be written to."
    )


class StayingFile:
    """
    The file of a database, which must be the same one as long as we run.

    SQLite goes on with what it has opened: what it writes would be gone with us.
    """

    def __init__(self, path: Path) -> None:
        """Take what is found first; if nothing is there yet, it will be made."""
        self._path = path
        self._first: tuple[int, int] | None = None
        self.check()

    def check(self, *_: object) -> None:
        """
        Be told that something connects, or uses its connection again.

        Raises:
            UnreachableError: It is not there any more, or is another one.
        """
        try:
            found = self._path.stat()
        except OSError:
            now = None
        else:
            now = found.st_dev, found.st_ino
        if self._first is None:
            self._first = now
        elif now != self._first:
            raise UnreachableError(
                f"{self._path} was deleted or replaced while it was in use. Stop what"
                " uses it, put it back, or a backup (docs/backup.md), and start anew"
            )


def _find_foreign(path: Path) -> Path | None:
    """Return what another user left of a database at *path*; None: nothing."""
    of_sqlite = (Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm"))
    for file in (*of_sqlite, name_lock(path)):
        if file.exists() and not (file.is_file() and os.access(file, os.W_OK)):
            return file
    return None


def _refuse_network_file_system(path: Path) -> None:
    """Refuse a file on a network file system; only Linux says which those are."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return
    kind = find_file_system(path.resolve(), mounts.read_text("utf-8", "replace"))
    if kind in NETWORK_FILE_SYSTEMS:
        raise UsageError(
            f"{path} lies on a network file system ({kind}), where SQLite's locks "
            "cannot be trusted. Set MINUTEHAND_HOME to a local one, or use PostgreSQL."
        )


#: How the kernel writes a space, and few other characters, in the name of a place.
_ESCAPED = re.compile(r"\\([0-7]{3})")


def find_file_system(path: Path, mounts: str) -> str:
    """
    Return the kind of file system that *path*, which is absolute, lies on.

    Args:
        mounts: What ``/proc/mounts`` says.
    """
    target = str(path)
    best, kind = "", ""
    for line in mounts.splitlines():
        _device, mount, file_system = line.split(" ")[:3]
        place = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), mount)
        prefix = place.rstrip("/") + "/"
        # Of several in one place, the last one hides the others, such as an automount.
        if target.startswith(prefix) and len(prefix) >= len(best):
            best, kind = prefix, file_system
    return kind
