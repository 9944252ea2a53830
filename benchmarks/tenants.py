"""
The lag of true minutes: from the due instant until each message is in the broker.

Run it as ``python -m benchmarks.tenants``. A real ``scheduler_server.py`` ticks for
some minutes, in each of which 50,000 actions of one small app are due and ten of
another; what is told is when the messages of either were in the broker, by a look at
the queue each millisecond from outside. Nobody takes them away, so the tables and the
queue grow as in the worst of hours.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import psycopg
import redis

from benchmarks.command import describe_load, make_parser, run_command
from benchmarks.peers.minutehand import MinutehandSteps
from benchmarks.servers import Servers, empty, run_servers
from tests.servers import ServerError, run_process

FEW = 10
MINUTE = timedelta(minutes=1)

_LOOK_EVERY_S = 0.001

#: Of a minute in which not all has come by then, something is wrong.
_PATIENCE_S = 55.0

#: Left for starting the scheduler before its first full minute.
HEAD_START_S = 15.0


class Quick(MinutehandSteps):
    """Every action is quick and due each minute: heavy ones would wait for workers."""

    def queue_of(self, number: int) -> str:  # noqa: ARG002 - all the same
        return "quick"


class Tenants(Quick):
    """The last few schedules are another small app's."""

    def app_of(self, number: int) -> str:
        return "few" if number >= self.registered - FEW else "crowd"


def find_first_minute(patience_s: float = 0.0) -> datetime:
    """Return the whole minute by which a scheduler has started, and *patience_s*."""
    at = datetime.fromtimestamp(time.time() + HEAD_START_S + patience_s, UTC)
    return at.replace(second=0, microsecond=0) + MINUTE


@contextmanager
def run_scheduler(servers: Servers, **settings: str) -> Iterator[psutil.Process]:
    """Run ``scheduler_server.py`` with *settings* for the length of the block."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "scheduler.log"
        environment = {
            **servers.settings,
            "MINUTEHAND_HOME": folder,
            "MINUTEHAND_QUEUE_PREFIX": "none",
            # One lane, so that messages are found in the order in which they came.
            "MINUTEHAND_APP_SHARE": "1",
            **{f"MINUTEHAND_{name}": value for name, value in settings.items()},
        }
        command = [sys.executable, "scheduler_server.py"]
        with run_process(command, log=log, environ=environment) as process:
            try:
                yield psutil.Process(process.pid)
            except ServerError as error:
                tail = log.read_text(errors="replace")[-2000:]
                msg = f"{error}; the end of the scheduler's log:\n{tail}"
                raise ServerError(msg) from None


def watch_minute(
    client: redis.Redis, minute: datetime, before: int, due: int
) -> list[float]:
    """Return of each of the *due* messages how long after *minute* it came."""
    time.sleep(max(0.0, minute.timestamp() - time.time() - 0.01))
    lags: list[float] = []
    while len(lags) < due:
        count = int(client.llen("quick")) - before
        lag = time.time() - minute.timestamp()
        lags += [lag] * (count - len(lags))
        if lag > _PATIENCE_S or (lag < 0 and lags):
            msg = f"{len(lags):,} of {due:,} messages {lag:.1f} s after {minute:%H:%M}"
            raise ServerError(msg)
        time.sleep(_LOOK_EVERY_S)
    return lags


def measure(servers: Servers, crowd: int, minutes: int) -> dict[str, list[float]]:
    servers = empty(servers, "tenants")
    due = crowd + FEW
    first = find_first_minute(due / 2_000)
    Tenants(servers, due, due).register_from(first)
    lags: list[float] = []
    with (
        run_scheduler(servers) as scheduler,
        redis.Redis.from_url(servers.redis) as client,
    ):
        for number in range(minutes):
            lags += watch_minute(client, first + number * MINUTE, number * due, due)
        memory_mb = scheduler.memory_info().rss / 2**20
        print(f"memory of the scheduler {memory_mb:.0f} MB; {describe_load()}")
        # the newest message is the first
        messages = reversed(client.lrange("quick", 0, -1))
    with psycopg.connect(servers.dsn) as connection:
        rows = connection.execute("select id from operations where app = 'few'")
        few = {str(task_id) for (task_id,) in rows}
    found: dict[str, list[float]] = {"crowd": [], "few": []}
    for message, lag in zip(messages, lags, strict=True):
        task_id = json.loads(message)["headers"]["id"]
        found["few" if task_id in few else "crowd"].append(lag)
    assert len(found["few"]) == FEW * minutes
    return {app: sorted(of_app) for app, of_app in found.items()}


def main() -> int:
    parser = make_parser("benchmarks.tenants", __doc__)
    parser.add_argument("--crowd", type=int, default=50_000)
    parser.add_argument("--minutes", type=int, default=5)
    options = parser.parse_args()
    with run_servers() as servers:
        found = measure(servers, options.crowd, options.minutes)
    for app, lags in found.items():
        shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
        found_s = {name: lags[int(len(lags) * each)] for name, each in shares.items()}
        told = ", ".join(f"{name} {lag:.3f} s" for name, lag in found_s.items())
        each = len(lags) // options.minutes
        print(f"{app}: {each:,} due each minute, {told}, most {lags[-1]:.3f} s")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
