"""A workspace that can run full, without root: a file system in a namespace."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers import run_process, wait_until

#: Megabytes of the workspace: enough for all versions of small files.
SIZE_MB = 256

_MOUNT = (
    'mount -t tmpfs -o size={size}m,mode=755 tmpfs "{folder}" && '
    'echo ready > "{ready}" && exec sleep infinity'
)


@dataclass(frozen=True, slots=True)
class Space:
    """
    Where the workers keep data.

    Args:
        folder: As all processes name it.
        enter: Begins a command that runs where it is a file system.
    """

    folder: Path
    enter: tuple[str, ...]

    def wrap(self, command: Iterable[str | Path]) -> list[str]:
        """Return *command* as it runs where the workspace is; it keeps its pid."""
        return [*self.enter, *map(str, command)]

    def fill(self) -> None:
        """Leave no room."""
        fill = f'cat /dev/zero > "{self.folder}/filler" 2>/dev/null || true'
        subprocess.run(self.wrap(["sh", "-c", fill]), check=True)

    def free(self) -> None:
        """Make room again."""
        subprocess.run(self.wrap(["rm", f"{self.folder}/filler"]), check=True)


@contextmanager
def make_space(folder: Path) -> Iterator[Space]:
    """Make the workspace at *folder*, of its own if this machine lets anybody."""
    folder.mkdir()
    ready, log = folder.with_name("workspace.ready"), folder.with_name("workspace.log")
    script = _MOUNT.format(size=SIZE_MB, folder=folder, ready=ready)
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        yield Space(folder, ())
        return
    with run_process(command, log=log) as holder:
        wait_until(lambda: ready.exists() or holder.poll() is not None, what="mount")
        enter = ("nsenter", "--target", str(holder.pid), "--user", "--mount", "--")
        yield Space(folder, () if holder.poll() is not None else enter)
