"""
Tasks of a project's own, from the due instant to the end of their operations.

Run it as ``python -m benchmarks.tasks``. So many actions, each a lone ``run_task``, are
due in one true minute; a real ``scheduler_server.py`` sends them straight to a queue
where a Celery worker of the project's takes them, whose task does nothing. There is no
worker of ours. With ``--held`` the scheduler is stopped while that worker works, so
that all answers are there at once when it goes on: how fast it takes them.
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
import psycopg
import redis

from benchmarks.command import describe_load, make_parser, run_command
from benchmarks.peers.minutehand import Minutehand
from benchmarks.servers import Servers, cpu_of, empty, run_servers
from benchmarks.tenants import find_first_minute, run_scheduler
from benchmarks.workers import run_worker, worker_command

QUEUE = "theirs"

#: Until all operations are final.
_PATIENCE_S = 600.0
_LOOK_EVERY_S = 0.02

_SENT = "select count(*) from operations where sends > 0"
_FINAL = "select count(*) from operations where finished_at is not null"


class Theirs(Minutehand):
    """All go to one queue, once: the next minutes would come while they run."""

    def queue_of(self, number: int) -> str:  # noqa: ARG002 - all the same
        return QUEUE

    def rule_of(self, number: int, now: datetime) -> dict[str, str]:  # noqa: ARG002
        rule = f"{now.minute} {now.hour} {now.day} {now.month} *"
        return {"cron_rule": rule, "timezone": "UTC"}


def measure(servers: Servers, due: int, concurrency: int, *, held: bool) -> list[str]:
    servers = empty(servers, "tasks")
    at = find_first_minute(due / 2_000)
    Theirs(servers, due, due).register_from(at)
    roots = psutil.Process().children()
    command = worker_command(QUEUE, concurrency, "-l", "ERROR", "--without-mingle")
    with (
        tempfile.TemporaryDirectory() as folder,
        run_worker(servers, "plain", command, Path(folder) / "worker.log") as worker,
        run_scheduler(servers) as scheduler,
        redis.Redis.from_url(servers.redis) as client,
        psycopg.connect(servers.dsn, autocommit=True) as connection,
    ):

        def read_cpu() -> list[float]:
            shared = sum(map(cpu_of, roots))
            spent_s = (cpu_of(scheduler), shared, cpu_of(worker))
            return [each / due * 1000 for each in spent_s]

        def note(what: str) -> float:
            lag_s = (datetime.now(UTC) - at).total_seconds()
            lines.append(f"{what}: {lag_s:.2f} s after it was due")
            return lag_s

        def wait(query: str) -> None:
            give_up_at = time.monotonic() + _PATIENCE_S
            while (count := connection.execute(query).fetchall()[0][0]) < due:
                assert time.monotonic() < give_up_at, f"only {count} of {due}"
                time.sleep(_LOOK_EVERY_S)

        lines: list[str] = []
        while datetime.now(UTC) < at:
            time.sleep(0.001)
        began = read_cpu()
        wait(_SENT)
        note("last sent")
        sent_ms = cpu_of(scheduler) / due * 1000 - began[0]
        if held:
            scheduler.suspend()
        while client.llen(QUEUE) or client.hlen("unacked"):
            time.sleep(_LOOK_EVERY_S)
        ended_s = note("their last task ended")
        resumed = time.monotonic()
        if held:
            scheduler.resume()
        wait(_FINAL)
        final_s = note("last operation final")
        if held:
            rate = due / (time.monotonic() - resumed)
            lines.append(f"answers that waited: {rate:,.0f} a second")
        else:
            lines.append(f"last final after their last end: {final_s - ended_s:.2f} s")
        pairs = zip(read_cpu(), began, strict=True)
        spent = [after - before for after, before in pairs]
    lines.append(
        f"CPU of each, ms: scheduler until sent {sent_ms:.2f}, until final"
        f" {spent[0]:.2f}; PostgreSQL and Redis {spent[1]:.2f}; their worker"
        f" {spent[2]:.2f}"
    )
    return lines


def main() -> int:
    parser = make_parser("benchmarks.tasks", __doc__)
    parser.add_argument("--due", type=int, default=2_000)
    parser.add_argument("--concurrency", type=int, default=2, help="of their worker")
    parser.add_argument("--held", action="store_true", help="answers come at once")
    options = parser.parse_args()
    with run_servers() as servers:
        lines = measure(servers, options.due, options.concurrency, held=options.held)
    print("\n".join([f"{options.due:,} due", *lines, describe_load()]))
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
