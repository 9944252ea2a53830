"""A Celery project of somebody else's: a plain application, and its workers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from operations.foreign_tasks import TaskAnswer, TaskSender
from tests.servers import run_warm, wait_until

#: What such a project has: nothing of ours. Each task leaves a line.
_SOURCE = """
import json, os
from celery import Celery

app = Celery("shop", broker=os.environ["SHOP_BROKER"])
app.conf.update(json.loads(os.environ["SHOP_SETTINGS"]))

@app.task(name="shop.break")
def fail():
    raise ValueError("no such shop", 7)

@app.task(name="shop.report", bind=True)
def report(self, *args, **kwargs):
    with open(os.environ["SHOP_LOG"], "a") as log:
        log.write(json.dumps([self.request.id, args, kwargs]) + "\\n")

@app.task(name="shop.hold")
def hold(pipe):
    open(pipe).close()  # until somebody opens it to write
"""


@dataclass(frozen=True)
class Project:
    """
    How to run a worker of it.

    Args:
        command: Starts it, in the folder where its application is.
        environ: Its variables.
        done: In which each task leaves a line: id, arguments, keyword arguments.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    done: Path


def make_project(
    folder: Path,
    broker_url: str,
    *queues: str,
    name: str = "shop",
    settings: Mapping[str, object] | None = None,
    pool: str = "solo",
) -> Project:
    """Write it into *folder*; its worker takes *queues*, or Celery's own."""
    (folder / "shop_project.py").write_text(_SOURCE)
    done = folder / "shop.jsonl"
    done.touch()
    command = [
        *(sys.executable, "-m", "celery", "-A", "shop_project", "worker"),
        *("--pool", pool, "--concurrency", "1", "--hostname", f"{name}@tests"),
        *(("--queues", ",".join(queues)) if queues else ()),
    ]
    environ = {
        "C_FORCE_ROOT": "1",  # or root could not run one that takes pickles
        "SHOP_BROKER": broker_url,
        "SHOP_LOG": str(done),
        "SHOP_SETTINGS": json.dumps(dict(settings or {})),
    }
    return Project(command, environ, done)


@contextmanager
def run_project(
    folder: Path,
    broker_url: str,
    *queues: str,
    name: str = "shop",
    settings: Mapping[str, object] | None = None,
    pool: str = "solo",
) -> Iterator[Path]:
    """
    Run a worker of the project on *queues*; none: that of Celery itself.

    Its *name* is that before the host's; *settings* are those of its application. One
    with the *pool* solo answers nothing while it runs a task.

    Yields:
        The file in which each task leaves a line: id, arguments, keyword arguments.
    """
    project = make_project(
        folder, broker_url, *queues, name=name, settings=settings, pool=pool
    )
    log = folder / "shop.log"
    with run_warm(project.command, log=log, environ=project.environ, cwd=folder):
        yield project.done


def wait_for_answers(sender: TaskSender) -> list[TaskAnswer]:
    """Return the answers over connection "shop", as soon as there are any."""
    kept: list[TaskAnswer] = []

    def has_answered() -> bool:
        sender.receive("shop", kept.extend, limit=10)
        return bool(kept)

    wait_until(has_answered, what="the answer")
    return kept
