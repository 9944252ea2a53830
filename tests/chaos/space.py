"""
A workspace that can run full, without root.

A file system of its own in a namespace of its own, if this machine lets anybody make
one; else a limit to the size of files that the workers may write.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.servers import run_process, wait_until

#: Megabytes of the workspace: enough for all versions of small files.
SIZE_MB = 256

_MOUNT = (
    'mount -t tmpfs -o size={size}m,mode=755 tmpfs "{folder}" && '
    'echo ready > "{ready}" && exec sleep infinity'
)


@dataclass
class Space:
    """
    Where the workers keep data.

    Args:
        folder: As all processes name it.

        holder: Of the namespace in which it is a file system. None: it is a folder.
    """

    folder: Path
    holder: int | None = None

    @property
    def how(self) -> str:
        """What is used to fill it."""
        return "a tmpfs filled to the last byte" if self.holder else "RLIMIT_FSIZE"

    def wrap(self, command: Iterable[str | Path]) -> list[str]:
        """Return *command* as it runs where the workspace is; it keeps its pid."""
        return [*self._enter(), *map(str, command)]

    def _enter(self) -> list[str]:
        if self.holder is None:
            return []
        return ["nsenter", "--target", str(self.holder), "--user", "--mount", "--"]

    def fill(self, workers: Iterable[psutil.Process]) -> None:
        """Leave no room for what the children of *workers* write."""
        if self.holder is None:
            _limit(workers, is_full=True)
            return
        fill = f'cat /dev/zero > "{self.folder}/filler" 2>/dev/null || true'
        subprocess.run([*self._enter(), "sh", "-c", fill], check=True)

    def free(self, workers: Iterable[psutil.Process]) -> None:
        """Make room again."""
        if self.holder is None:
            _limit(workers, is_full=False)
            return
        subprocess.run([*self._enter(), "rm", f"{self.folder}/filler"], check=True)


def _limit(workers: Iterable[psutil.Process], *, is_full: bool) -> None:
    for worker in workers:
        # A parent writes nothing but its log, for which a limit of files is no test.
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            for each in worker.children(recursive=True):
                _, hard = resource.prlimit(each.pid, resource.RLIMIT_FSIZE)
                limits = (0 if is_full else hard, hard)
                resource.prlimit(each.pid, resource.RLIMIT_FSIZE, limits)


@contextmanager
def make_space(folder: Path) -> Iterator[Space]:
    """Make the workspace at *folder*."""
    folder.mkdir()
    ready, log = folder.with_name("workspace.ready"), folder.with_name("workspace.log")
    script = _MOUNT.format(size=SIZE_MB, folder=folder, ready=ready)
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    if sys.platform != "linux" or not _has("unshare") or not _has("nsenter"):
        yield Space(folder)
        return
    with run_process(command, log=log) as holder:
        wait_until(
            lambda: ready.exists() or holder.poll() is not None,
            timeout_s=30,
            what="a file system of our own",
        )
        yield Space(folder, None if holder.poll() is not None else holder.pid)


def _has(program: str) -> bool:
    with suppress(FileNotFoundError):
        done = subprocess.run([program, "--version"], check=False, capture_output=True)
        return done.returncode == 0
    return False
