"""
Whether a crowded small app delays another's few runs of the same minute.

Run it as ``python -m benchmarks.tenants``. A real ``scheduler_server.py`` ticks for
some minutes, in each of which 50,000 actions of one small app are due and ten of
another; what is told is when the messages of either were in the broker.
"""

from __future__ import annotations

import json
import sys
import time

import psycopg
import redis

from benchmarks.command import make_parser, run_command
from benchmarks.servers import Servers, empty, run_servers
from benchmarks.lag import (
    HEAD_START_S,
    MINUTE,
    Quick,
    find_first_minute,
    run_scheduler,
    watch_minute,
)

FEW = 10


class Tenants(Quick):
    """The last few schedules are another small app's."""

    def app_of(self, number: int) -> str:
        """Return the small app of a schedule by its number."""
        return "few" if number >= self.registered - FEW else "crowd"


def measure(servers: Servers, crowd: int, minutes: int) -> dict[str, list[float]]:
    """
    Return the lags of either app, in seconds after the due instant, in order.

    Raises:
        ServerError: Not all that was due came within its minute.
    """
    servers = empty(servers, "tenants")
    due = crowd + FEW
    peer = Tenants(servers, due, due)
    first = find_first_minute(time.time() + HEAD_START_S + due / 2_000)
    peer.register_from(first)
    lags: list[float] = []
    with (
        run_scheduler(servers),
        redis.Redis.from_url(servers.redis) as client,
    ):
        for number in range(minutes):
            lags += watch_minute(client, first + number * MINUTE, number * due, due)
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
    """Print a line for each app; return the exit code."""
    parser = make_parser("tenants", __doc__)
    parser.add_argument("--crowd", type=int, default=50_000)
    parser.add_argument("--minutes", type=int, default=5)
    options = parser.parse_args()
    with run_servers() as servers:
        found = measure(servers, options.crowd, options.minutes)
    for app, lags in found.items():
        p50, p99, most = lags[len(lags) // 2], lags[len(lags) * 99 // 100], lags[-1]
        each = len(lags) // options.minutes
        print(
            f"{app}: {each:,} due each minute, "
            f"p50 {p50:.3f} s, p99 {p99:.3f} s, most {most:.3f} s"
        )
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
