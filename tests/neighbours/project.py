"""
Celery projects of others that share our broker, and what became of their tasks.

They are configured as their own documentation tells them to, and know nothing of us.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from celery import Celery

from tests.servers import run_warm, wait_until

#: Variables of the tests, for the projects.
BROKER = "NEIGHBOUR_BROKER"
EFFECTS = "NEIGHBOUR_EFFECTS"


def note(project: str, number: int) -> None:
    """Write down that task *number* of *project* ran, in one call."""
    with Path(os.environ[EFFECTS]).open("a") as effects:
        effects.write(f"{project} {number}\n")


@dataclass(frozen=True)
class Project:
    """
    One of them.

    Args:
        name: Of its module in this folder.

        prefix: Of the names of its tasks.

        queue: Where its tasks go by default.

        broker_url: Of ours.

        folder: For its logs.
    """

    name: str
    prefix: str
    queue: str
    broker_url: str
    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """Variables of its processes."""
        effects = str(self.folder / "neighbours")
        return {BROKER: self.broker_url, EFFECTS: effects}

    @property
    def command(self) -> list[str]:
        """How its programs begin."""
        module = f"tests.neighbours.{self.name}"
        return [sys.executable, "-m", "celery", "--app", module]

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run a worker of it, which is ready."""
        log = self.folder / f"{self.name}.log"
        with run_warm(
            [*self.command, "worker", "-c", "1", "-l", "INFO", "-n", f"{self.name}@x"],
            log=log,
            environ=self.environ,
            stop_timeout_s=5,
        ) as process:
            wait_until(
                lambda: " ready." in log.read_text(errors="replace"),
                what=f"the worker of {self.name}",
            )
            yield process

    @contextmanager
    def open(self) -> Iterator[Celery]:
        """Give its application, as any program of theirs that asks its workers."""
        with Celery(self.prefix, broker=self.broker_url, set_as_current=False) as app:
            yield app

    def ping(self) -> list[str]:
        """Return the names of the workers that answer it."""
        with self.open() as app:
            return [name for reply in app.control.ping(timeout=2) for name in reply]

    def shut_down(self) -> None:
        """Tell all workers that hear it to stop."""
        with self.open() as app:
            app.control.shutdown()

    def send(self, count: int) -> None:
        """Send so many tasks."""
        with self.open() as app:
            for number in range(count):
                app.send_task(f"{self.prefix}.count", [number], queue=self.queue)

    def fetch_done(self, prefix: str | None = None) -> list[int]:
        """Return the numbers of its tasks that ran, each as often as it did."""
        path = self.folder / "neighbours"
        lines = path.read_text().split("\n") if path.exists() else []
        pairs = [line.split() for line in lines if line]
        wanted = prefix or self.prefix
        return sorted(int(number) for name, number in pairs if name == wanted)


def make_site(broker_url: str, folder: Path) -> Project:
    """Return the project of Django."""
    return Project("django_site", "site", "quick", broker_url, folder)


def make_projects(broker_url: str, folder: Path) -> list[Project]:
    """Return a plain project, and Django's."""
    return [
        Project("plain", "shop", "celery", broker_url, folder),
        make_site(broker_url, folder),
    ]
