"""
How many operations a second a worker runs, beside plain Celery tasks.

Run it as ``python -m benchmarks.workers``. Each case starts a real Celery worker
(prefork, prefetch 1), fills its queue, and waits until the broker holds nothing any
more and all has come to its end. "plain" does nothing, and is acknowledged late, as
is advised for tasks that must not be lost. "nothing" is an operation whose one step
does nothing: what remains is the claim, its steps, and the end. "task" sends a task of
the user's own. "bare" is the least that a claim can cost: two updates of a row, two
commits, and no library but the driver. The cases take turns, for the machine is not
alone; what counts is the ratio within one run.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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
from benchmarks.servers import Servers, empty, run_servers, to_environment
from celery_app.routing import EXECUTE_SCHEDULED_ACTION_QUICK
from migrations.schema import migrate
from models.database.engine import make_engine, writing
from models.database.tables import operations, small_apps
from models.decision import NewOperation
from models.door.documents import read_action_object
from models.operation_state import Overlap, Queue, Trigger
from operations.record import record

CASES = ("plain", "bare", "nothing", "task")

#: Run before anything is measured: each process imports and connects at its first.
WARM = 40

#: Of the cases that are not ours.
TASKS = {"plain": "benchmarks.nothing", "bare": "benchmarks.bare"}

_MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)


def measure(
    servers: Servers, case: str, count: int, concurrency: int, log: Path
) -> tuple[float, float]:
    """Return tasks a second, and the CPU of one in milliseconds."""
    servers = empty(servers, "workers")
    app = Celery("benchmark", broker=servers.redis, set_as_current=False)
    task = TASKS.get(case, EXECUTE_SCHEDULED_ACTION_QUICK)
    ids = [uuid4() for _ in range(WARM + count)]
    if case != "plain":
        ids = record_operations(servers, WARM + count)
    with run_worker(servers, case, concurrency, log) as worker:
        client = redis.Redis.from_url(servers.redis)
        send(app, task, ids[:WARM])
        wait_until_done(servers, client, case, WARM)
        cpu_s = cpu_of(worker)
        # Held back until all are there, so that sending is not measured.
        send(app, task, ids[WARM:], queue="held")
        client.rename("held", Queue.QUICK.value)
        begin = time.perf_counter()
        wait_until_done(servers, client, case, len(ids))
        wall_s = time.perf_counter() - begin
        cpu_s = cpu_of(worker) - cpu_s
    return count / wall_s, cpu_s / count * 1000


def record_operations(servers: Servers, count: int) -> list[UUID]:
    """Record *count* operations of one quick action, as sent."""
    engine = make_engine(servers.postgres)
    migrate(engine)
    action = read_action_object(
        {
            "name": "each minute",
            "uid": "action",
            "operations": {"run_task": {"name": "benchmarks.other", "queue": "other"}},
            "when": {"cron_rule": "* * * * *"},
        }
    )
    with writing(engine) as connection:
        connection.execute(sa.insert(small_apps).values(uid="app", name="app"))
        post_action(connection, "app", action)
        ids = record(
            connection,
            [
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
            ],
        )
        connection.execute(sa.update(operations).values(state="queued"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # Not of what is empty still: it would be read from end to end until
        # autovacuum looks again, a minute later.
        connection.exec_driver_sql("vacuum analyze operations")
    engine.dispose()
    return list(ids)


@contextmanager
def run_worker(
    servers: Servers, case: str, concurrency: int, log: Path
) -> Iterator[psutil.Process]:
    """Run a worker of *case* for the length of the block."""
    environment = to_environment(servers) | {
        "MINUTEHAND_DATABASE_URL": servers.postgres,
        "MINUTEHAND_BROKER_URL": servers.redis,
        "MINUTEHAND_HOME": str(log.parent),
        # the plain worker's queue has the same name
        "MINUTEHAND_QUEUE_PREFIX": "none",
        "BENCHMARK_CASE": case,
    }
    command = [
        *(sys.executable, "-m", "celery", "-A", "benchmarks.worker_app", "worker"),
        *("-Q", Queue.QUICK.value, "-P", "prefork", "-c", str(concurrency)),
        *("--prefetch-multiplier", "1"),
        *("-l", "WARNING" if case in TASKS else "INFO"),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output
        )
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(30)


def send(app: Celery, task: str, ids: list[UUID], queue: str = "quick") -> None:
    """Send *task* under each of *ids*, the messages addressed to the quick queue."""
    target = KombuQueue(queue, Exchange(queue), routing_key=queue)
    with app.connection_for_write() as connection:
        producer = app.amqp.Producer(connection, auto_declare=False)
        target(connection.default_channel).declare()
        with producer.batch():
            for task_id in ids:
                app.send_task(
                    task, task_id=str(task_id), queue=target, producer=producer
                )


def wait_until_done(
    servers: Servers,
    client: redis.Redis,
    case: str,
    expected: int,
    timeout_s: float = 60,
) -> None:
    """Wait until nothing is queued, and until *expected* tasks have come to an end."""
    give_up_at = time.monotonic() + timeout_s
    # "unacked": what was taken and is to be acknowledged; ours is not
    while client.llen(Queue.QUICK.value) or client.hlen("unacked"):
        assert time.monotonic() < give_up_at, "the worker does not get on; see its log"
        time.sleep(0.01)
    if case == "plain":
        return
    with psycopg.connect(servers.dsn, autocommit=True) as connection:
        while (succeeded := count_succeeded(connection)) < expected:
            assert time.monotonic() < give_up_at, (
                f"{succeeded} of {expected} succeeded; see the worker's log"
            )
            time.sleep(0.01)


def count_succeeded(connection: psycopg.Connection[tuple[int]]) -> int:
    """Return how many operations have reached their end."""
    found = connection.execute(
        "select count(*) from operations where state = 'succeeded'"
    ).fetchone()
    assert found is not None  # a count is a row
    return found[0]


def cpu_of(worker: psutil.Process) -> float:
    """Return the seconds of CPU of *worker* and its children."""
    processes = [worker, *worker.children(recursive=True)]
    return sum(sum(each.cpu_times()[:2]) for each in processes)


def main() -> int:
    """Print the table; return the exit code."""
    parser = make_parser("workers", __doc__)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=2)
    parser.add_argument("--cases", default=",".join(CASES))
    options = parser.parse_args()
    cases = options.cases.split(",")
    found: dict[str, list[tuple[float, float]]] = {case: [] for case in cases}
    with run_servers() as servers, tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for case in cases:
                log = Path(folder) / f"{case}.log"
                figures = measure(
                    servers, case, options.count, options.concurrency, log
                )
                found[case].append(figures)
    print(f"{'case':<10}{'tasks/s':>10}{'CPU ms':>10}{'of plain':>10}")
    for case in cases:
        rate = statistics.median(each[0] for each in found[case])
        cpu_ms = statistics.median(each[1] for each in found[case])
        ratios = [
            mine[0] / plain[0]
            for mine, plain in zip(found[case], found[cases[0]], strict=True)
        ]
        print(
            f"{case:<10}{rate:>10.0f}{cpu_ms:>10.2f}{statistics.median(ratios):>10.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
