"""
The lag of true minutes: from the due instant until each message is in the broker.

Run it as ``python -m benchmarks.lag``. A real ``scheduler_server.py`` ticks for ten
minutes with a thousand actions due in each, then with ten thousand; a look at the
queue each millisecond, from outside, says when each message came. Nobody takes them
away, so the tables and the queue grow as in the worst of hours.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import Popen

import psutil
import redis

from benchmarks.command import make_parser, run_command
from benchmarks.peers.minutehand import MinutehandSteps
from benchmarks.servers import Servers, empty, run_servers
from tests.servers import ServerError, run_process

_LOOK_EVERY_S = 0.001

#: Of a minute in which not all has come by then, something is wrong.
_PATIENCE_S = 55.0

MINUTE = timedelta(minutes=1)

#: Left for starting the scheduler before its first full minute.
HEAD_START_S = 15.0

_BAR = 50


class Quick(MinutehandSteps):
    """Every action is quick and due each minute: heavy ones would wait for workers."""

    def queue_of(self, number: int) -> str:  # noqa: ARG002 - all the same
        """Return the queue of a schedule by its number."""
        return "quick"


@dataclass
class Lags:
    """What was seen: seconds after the due instant, by when messages were there."""

    due: int
    minutes: int
    p50_s: float
    p99_s: float
    p999_s: float
    most_s: float
    cpu_ms_each: float
    memory_mb: float


def soak(servers: Servers, due: int, minutes: int) -> tuple[Lags, list[float]]:
    """
    Run a scheduler for *minutes*, each with *due* actions due.

    Raises:
        ServerError: Not all that was due came within its minute.
    """
    servers = empty(servers, "lag")
    peer = Quick(servers, due, due)
    first = find_first_minute(time.time() + HEAD_START_S + due / 5_000)
    peer.register_from(first)
    lags: list[float] = []
    with (
        run_scheduler(servers) as process,
        redis.Redis.from_url(servers.redis) as client,
    ):
        scheduler = psutil.Process(process.pid)
        cpu_s = 0.0
        for number in range(minutes):
            lags += watch_minute(client, first + number * MINUTE, number * due, due)
            if number == 0:
                cpu_s = sum(scheduler.cpu_times()[:2])
        cpu_s = sum(scheduler.cpu_times()[:2]) - cpu_s
        memory_mb = scheduler.memory_info().rss / 2**20
    lags.sort()
    return Lags(
        due=due,
        minutes=minutes,
        p50_s=lags[len(lags) // 2],
        p99_s=lags[len(lags) * 99 // 100],
        p999_s=lags[len(lags) * 999 // 1000],
        most_s=lags[-1],
        cpu_ms_each=cpu_s * 1000 / max(1, (minutes - 1) * due),
        memory_mb=memory_mb,
    ), lags


def find_first_minute(after: float) -> datetime:
    """Return the next whole minute after *after*, in seconds since the epoch."""
    at = datetime.fromtimestamp(after, UTC)
    return at.replace(second=0, microsecond=0) + MINUTE


@contextmanager
def run_scheduler(servers: Servers, **settings: str) -> Iterator[Popen[bytes]]:
    """Run ``scheduler_server.py`` with *settings* for the length of the block."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "scheduler.log"
        environment = {
            "MINUTEHAND_DATABASE_URL": servers.postgres,
            "MINUTEHAND_BROKER_URL": servers.redis,
            "MINUTEHAND_HOME": folder,
            "MINUTEHAND_QUEUE_PREFIX": "none",
            # One lane, so that messages are found in the order in which they came.
            "MINUTEHAND_APP_SHARE": "1",
            **{f"MINUTEHAND_{name}": value for name, value in settings.items()},
        }
        command = [sys.executable, "scheduler_server.py"]
        with run_process(command, log=log, environ=environment) as process:
            try:
                yield process
            except ServerError as error:
                tail = log.read_text(errors="replace")[-2000:]
                msg = f"{error}; the end of the scheduler's log:\n{tail}"
                raise ServerError(msg) from None


def watch_minute(
    client: redis.Redis, minute: datetime, before: int, due: int
) -> list[float]:
    """
    Return for each message of *minute* how long after it the message came.

    Args:
        client: Of the broker.
        minute: Aware UTC; has not begun.
        before: Messages of earlier minutes, which are still there.
        due: Messages to come.

    Raises:
        ServerError: Not all of them came in time, or some came early.
    """
    time.sleep(max(0.0, minute.timestamp() - time.time() - 0.01))
    lags: list[float] = []
    while len(lags) < due:
        count = int(client.llen("quick")) - before
        lag = time.time() - minute.timestamp()
        if count > len(lags):
            lags += [lag] * (count - len(lags))
        if lag > _PATIENCE_S or (lag < 0 and lags):
            msg = f"{len(lags):,} of {due:,} messages {lag:.1f} s after {minute:%H:%M}"
            raise ServerError(msg)
        time.sleep(_LOOK_EVERY_S)
    return lags


def print_histogram(lags: Sequence[float]) -> None:
    """Print how many messages came within 1 ms, 2 ms, 4 ms, ... of the instant."""
    bounds = [0.001 * 2**power for power in range(17)]
    counts = Counter(next(b for b in bounds if lag <= b) for lag in lags)
    most = max(counts.values())
    occupied = [number for number, bound in enumerate(bounds) if counts[bound]]
    for bound in bounds[occupied[0] : occupied[-1] + 1]:
        bar = "#" * -(-counts[bound] * _BAR // most)
        print(f"  up to {bound * 1000:>7,.0f} ms {counts[bound]:>9,}  {bar}")


def main() -> int:
    """Print a table and a histogram for each size; return the exit code."""
    parser = make_parser("lag", __doc__)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--due", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    found: list[Lags] = []
    with run_servers() as servers:
        for due in options.due:
            figures, lags = soak(servers, due, options.minutes)
            found.append(figures)
            print(
                f"{due:,} due each minute, {options.minutes} minutes: "
                f"p50 {figures.p50_s:.3f} s, p99 {figures.p99_s:.3f} s, "
                f"p99.9 {figures.p999_s:.3f} s, most {figures.most_s:.3f} s; "
                f"CPU {figures.cpu_ms_each:.3f} ms each, "
                f"memory {figures.memory_mb:.0f} MB"
            )
            print_histogram(lags)
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in found], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
