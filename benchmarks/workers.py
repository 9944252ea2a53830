"""
How many operations a second a worker runs, beside plain Celery tasks.

Run it as ``python -m benchmarks.workers``. Each case starts a real Celery worker
(prefork, prefetch 1), fills its queue, and waits until the broker holds nothing any
more and all has come to its end. "plain" does nothing, and is acknowledged late, as
is advised for tasks that must not be lost. "nothing" is an operation whose one step
does nothing: what remains is the claim, its steps, and the end. "task" sends a task of
the user's own. The cases take turns, for the machine is not alone; what counts is the
ratio within one run.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import psutil
import psycopg
import redis
import sqlalchemy as sa
from celery import Celery
from kombu import Exchange
from kombu import Queue as KombuQueue

from actions.posting.post import post_action
from benchmarks.command import make_parser, run_command
from benchmarks.servers import Servers, cpu_of, empty, run_servers
from celery_app.routing import EXECUTE_SCHEDULED_ACTION_QUICK
from migrations.schema import migrate
from models.database.engine import make_engine, writing
from models.database.tables import operations, small_apps
from models.decision import NewOperation
from models.door.documents import read_action_object
from models.operation_state import Overlap, Queue, Trigger
from operations.record import record
from tests.servers import run_process

CASES = ("plain", "nothing", "task")

#: Run before anything is measured: each process imports and connects at its first.
WARM = 40

_MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
_ACTION = {
    "name": "each minute",
    "uid": "action",
    "operations": {"run_task": {"name": "benchmarks.other", "queue": "other"}},
    "when": {"cron_rule": "* * * * *"},
}

_PATIENCE_S = 60.0


def measure(
    servers: Servers, case: str, count: int, concurrency: int, log: Path
) -> tuple[float, float]:
    """Return tasks a second, and the CPU of one in milliseconds."""
    servers = empty(servers, "workers")
    app = Celery("benchmark", broker=servers.redis, set_as_current=False)
    if case == "plain":
        task, level = "benchmarks.nothing", "WARNING"
        ids = [uuid4() for _ in range(WARM + count)]
    else:
        task, level = EXECUTE_SCHEDULED_ACTION_QUICK, "INFO"
        ids = record_operations(servers, WARM + count)
    more = ("--prefetch-multiplier", "1", "-l", level)
    command = worker_command(Queue.QUICK, concurrency, *more)
    with run_worker(servers, case, command, log) as worker:
        client = redis.Redis.from_url(servers.redis)
        send(app, task, ids[:WARM])
        wait_until_done(servers, client, case, WARM)
        cpu_s = cpu_of(worker)
        # Held back until all are there, so that sending is not measured.
        send(app, task, ids[WARM:], queue="held")
        client.rename("held", Queue.QUICK)
        begin = time.perf_counter()
        wait_until_done(servers, client, case, len(ids))
        wall_s = time.perf_counter() - begin
        cpu_s = cpu_of(worker) - cpu_s
    return count / wall_s, cpu_s / count * 1000


def record_operations(servers: Servers, count: int) -> list[UUID]:
    engine = make_engine(servers.postgres)
    migrate(engine)
    made = [
        NewOperation(
            id=uuid4(),
            action_uid="action",
            action_revision=1,
            app="app",
            trigger=Trigger.SCHEDULE,
            triggered_by='Scheduled action "each minute"',
            occurrence=_MIDNIGHT + number * timedelta(minutes=1),
            queue=Queue.QUICK,
            overlap=Overlap.ALLOW,
        )
        for number in range(count)
    ]
    with writing(engine) as connection:
        connection.execute(sa.insert(small_apps).values(uid="app", name="app"))
        post_action(connection, "app", read_action_object(_ACTION))
        ids = record(connection, made)
        connection.execute(sa.update(operations).values(state="queued"))
    engine.dispose()
    with psycopg.connect(servers.dsn, autocommit=True) as raw:
        # Not of what is empty still: it would be read from end to end until
        # autovacuum looks again, a minute later.
        raw.execute("vacuum analyze operations")
    return list(ids)


def worker_command(queue: str, concurrency: int, *more: str) -> Sequence[str]:
    return (
        *(sys.executable, "-m", "celery", "-A", "benchmarks.worker_app", "worker"),
        *("-Q", queue, "-c", str(concurrency), *more),
    )


@contextmanager
def run_worker(
    servers: Servers, case: str, command: Sequence[str], log: Path
) -> Iterator[psutil.Process]:
    environment = {
        **servers.settings,
        "MINUTEHAND_HOME": str(log.parent),
        # the plain worker's queue has the same name
        "MINUTEHAND_QUEUE_PREFIX": "none",
        "BENCHMARK_CASE": case,
    }
    with run_process(command, log=log, environ=environment) as process:
        yield psutil.Process(process.pid)


def send(app: Celery, task: str, ids: list[UUID], queue: str = "quick") -> None:
    """Send *task* under each of *ids*, the messages addressed to the quick queue."""
    target = KombuQueue(queue, Exchange(queue), routing_key=queue)
    with app.connection_for_write() as connection:
        producer = app.amqp.Producer(connection, auto_declare=False)
        target(connection.default_channel).declare()
        with producer.batch():
            for each in ids:
                app.send_task(task, task_id=str(each), queue=target, producer=producer)


def wait_until_done(
    servers: Servers, client: redis.Redis, case: str, expected: int
) -> None:
    """Wait until nothing is queued, and until *expected* tasks have come to an end."""
    give_up_at = time.monotonic() + _PATIENCE_S
    # "unacked": what was taken and is to be acknowledged; ours is not
    while client.llen(Queue.QUICK) or client.hlen("unacked"):
        assert time.monotonic() < give_up_at, "the worker does not get on; see its log"
        time.sleep(0.01)
    if case == "plain":
        return
    query = "select count(*) from operations where state = 'succeeded'"
    with psycopg.connect(servers.dsn, autocommit=True) as connection:
        while (done := connection.execute(query).fetchall()[0][0]) < expected:
            assert time.monotonic() < give_up_at, (
                f"{done} of {expected} succeeded; see the worker's log"
            )
            time.sleep(0.01)


def main() -> int:
    parser = make_parser("benchmarks.workers", __doc__)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=2)
    parser.add_argument("--cases", default=",".join(CASES))
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {}
    with run_servers() as servers, tempfile.TemporaryDirectory() as folder:
        for case in options.cases.split(",") * options.rounds:
            log = Path(folder) / f"{case}.log"
            figures = measure(servers, case, options.count, options.concurrency, log)
            found.setdefault(case, []).append(figures)
    print(f"{'case':<10}{'tasks/s':>10}{'CPU ms':>10}{'of plain':>10}")
    plain = next(iter(found.values()))
    for case, rounds in found.items():
        rate, cpu_ms = map(statistics.median, zip(*rounds, strict=True))
        pairs = zip(rounds, plain, strict=True)
        ratio = statistics.median(mine[0] / other[0] for mine, other in pairs)
        print(f"{case:<10}{rate:>10.0f}{cpu_ms:>10.2f}{ratio:>10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
