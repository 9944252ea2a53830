"""
What the demo lets go wrong: a worker that is killed, and runs that were missed.

Both really happen: a process gets SIGKILL while it has a claim, and an action took
effect before the installation was there. The rows tell what became of them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa

from actions.posting.post import post_action
from cli.connection import read_database, write_database
from cli.demo.data import APP, MISSED, REPORT, read_document
from dispatch.manual_runs import run_now
from models.database.engine import make_engine, read_host_clock
from models.operation_state import OperationState
from operations.claiming.claim import claim_operation
from operations.running.step_records import prepare_steps
from overview.operations import ShownOperation
from overview.why.instant import explain_instant
from settings import Settings

#: How long ago the action whose runs were missed took effect.
OUTAGE = timedelta(hours=2)

#: How long the worker works before it is killed.
_LIVES_FOR = timedelta(seconds=4)

#: How long its claim lasts: as short as the demo is. Others renew theirs.
_LEASE = timedelta(seconds=8)

#: What it says when it has begun.
_BEGUN = "begun"


@dataclass(slots=True)
class KilledWorker:
    """
    A worker process that is killed while it runs the report.

    ``start`` starts it, ``take_report`` lets it take the operation, and ``look`` kills
    it when its time has come.
    """

    _process: subprocess.Popen[str] | None = None
    _begun_at: datetime | None = None
    killed_at: datetime | None = None

    def start(self, settings: Settings) -> None:
        """Start the process, which takes a moment to load."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cli.demo.scenes", settings.database_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def take_report(self, engine: sa.Engine) -> None:
        """Record the report, and let the process take it before anybody else does."""
        assert self._process is not None  # it was started
        assert self._process.stdin is not None  # a pipe
        assert self._process.stdout is not None  # a pipe
        operation_id = run_now(engine, REPORT, key="demo")
        try:
            self._process.stdin.write(f"{operation_id}\n")
            self._process.stdin.flush()
            begun = self._process.stdout.readline().strip() == _BEGUN
        except BrokenPipeError:
            begun = False
        if begun:
            self._begun_at = read_host_clock()

    def look(self, now: datetime) -> None:
        """Kill the process, once it has worked for long enough."""
        if self._begun_at is None or self.killed_at is not None:
            return
        if now >= self._begun_at + _LIVES_FOR:
            self.end()
            self.killed_at = now

    def end(self) -> None:
        """Kill the process, if there is one, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def describe(self, shown: ShownOperation | None) -> str:
        """Say what happens to the report, from its row."""
        if shown is None or self._begun_at is None:
            return "daily report: its worker will be killed in the middle of its work."
        if self.killed_at is None:
            return f"daily report: {shown.worker} runs it, and will be killed soon."
        text = f"its worker was killed (SIGKILL) at {self.killed_at:%H:%M:%S}Z"
        if shown.state == OperationState.SUCCEEDED and shown.finished_at is not None:
            text += (
                f"; another one picked it up, and attempt {shown.attempt} succeeded at"
                f" {shown.finished_at:%H:%M:%S}Z."
            )
        elif shown.state != OperationState.RUNNING:
            text += "; its claim ran out, and another attempt is next."
        elif shown.attempt > 1:
            text += f"; another one runs attempt {shown.attempt}."
        else:
            text += ". Nobody renews its claim, which runs out within seconds."
        return f"daily report: {text}"


def post_missed(settings: Settings, *, now: datetime) -> None:
    """Post the action whose runs are missed, as if two hours before *now*."""
    clock = now - OUTAGE
    engine = make_engine(settings.database_url, clock=lambda: clock)
    with write_database(engine) as connection:
        post_action(connection, APP, read_document(MISSED))
    engine.dispose()


def describe_missed(
    engine: sa.Engine, shown: ShownOperation | None, *, home: str
) -> list[str]:
    """Say what became of the runs that fell into the outage, and ``why`` of one."""
    if shown is None or shown.missed is None:
        return ["figures: runs that fell into an outage will be found."]
    missed = shown.missed
    with read_database(engine) as connection:
        answers = explain_instant(connection, MISSED, missed.first)
    told = (
        f"figures: nothing ran for two hours, so {missed.count} runs were missed"
        f" ({shown.reason}), {missed.first:%H:%M}Z to {missed.last:%H:%M}Z."
    )
    asked = (
        f"  MINUTEHAND_HOME={shlex.quote(home)} {find_program()} why {MISSED}"
        f" --at {missed.first:%Y-%m-%dT%H:%MZ}"
    )
    return [told, asked, *(f"  {answer.text}" for answer in answers)]


def find_program() -> str:
    """Return how to call this program; ``make demo`` activates no environment."""
    if shutil.which("minutehand"):
        return "minutehand"
    return shlex.quote(os.path.relpath(Path(sys.executable).with_name("minutehand")))


def main() -> None:
    """
    Be the worker that is killed, in a process of its own.

    It reads the id of an operation, claims it and begins its first step, as any worker
    does, says so, and then works until the demo ends it.
    """
    engine = make_engine(sys.argv[1])
    operation_id = UUID(sys.stdin.readline().strip())
    worker = f"doomed@{socket.gethostname()}"
    claim = claim_operation(engine, operation_id, worker=worker, lease=_LEASE)
    if claim is None:
        sys.exit("the operation was taken by another worker")
    with write_database(engine) as connection:
        prepare_steps(connection, claim, tuple(claim.document["operations"]))
    sys.stdout.write(f"{_BEGUN}\n")
    sys.stdout.flush()
    sys.stdin.read()  # ends with the demo, should that end first


if __name__ == "__main__":
    main()
