"""
Whether requests to the HTTP API delay what is due, and what they take meanwhile.

Run it as ``python -m benchmarks.api_load``. A real ``scheduler_server.py`` ticks with
10,000 actions due each minute, on PostgreSQL and Redis; beside it runs a real
``minutehand web`` on the same database. Every other minute it is asked 200 times a
second: lists, single things, previews, new actions, runs by hand.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus

import psycopg
import redis

from benchmarks.command import describe_load, make_parser, run_command
from benchmarks.installation import Size, fill
from benchmarks.load import is_due
from benchmarks.servers import Servers, empty, run_servers
from benchmarks.soak import (
    HEAD_START_S,
    MINUTE,
    Quick,
    find_first_minute,
    run_scheduler,
    watch_minute,
)
from benchmarks.web import Web, run_web

#: There already: what a smaller installation has after a quarter of a year.
SIZE = Size(
    operations=100_000, actions=10_000, users=10_000, events=30_000, changes=10_000
)

#: Requests begin so long before the minute, and go on so long after it.
BEFORE_S = 10.0
AFTER_S = 20.0

#: Actions that are run by hand, each in turn.
BY_HAND = 5_000

#: What was there before is not to be sent now, nor to be due in these minutes.
_SETTLE = (
    """
    update operations
    set state = 'succeeded', claim_token = null, finished_at = now()
    where state in ('pending', 'queued', 'running')
    """,
    """
    update scheduled_actions set next_due_at = now() + interval '1 day'
    where next_due_at < now() + interval '1 day'
    """,
)


class Due(Quick):
    """
    Some are due each minute. The others are never; people run them by hand.

    Those are heavy and each in a small app of its own, so that their messages are in
    another queue than those that are counted.
    """

    def queue_of(self, number: int) -> str:  # type: ignore[override]
        """Return the queue of a schedule by its number."""
        is_quick = is_due(number, self.registered, self.due)
        return "quick" if is_quick else "heavy"


@dataclass
class Minute:
    """
    What was seen in one minute, in seconds after its beginning.

    Args:
        answers: Of requests, if there were any: when they were to be sent, what they
            took, and their status.
    """

    first_s: float
    last_s: float
    per_s: float
    answers: list[tuple[float, float, int]]


def make_requests(servers: Servers) -> list[tuple[str, str, str | None]]:
    """Return requests to be sent in turns: four in five read."""
    with psycopg.connect(servers.dsn) as connection:
        found = connection.execute(
            "select id from operations where app like 'app-%' order by random()"
            f" limit {BY_HAND}"
        )
        ids = [str(each) for (each,) in found]
        found = connection.execute(
            "select uid from scheduled_actions where queue = 'heavy'"
            f" and app like 'app %' limit {BY_HAND}"
        )
        uids = [uid for (uid,) in found]
    action = {
        "name": "posted NUMBER",
        "operations": {"run_task": {"name": "benchmarks.nothing", "queue": "other"}},
        "when": {"cron_rule": "0 7 1 1 *", "timezone": "Europe/Paris"},
    }
    body = json.dumps(action)
    requests: list[tuple[str, str, str | None]] = []
    for number in range(BY_HAND):
        other = ids[-1 - number % len(ids)]
        one, uid = ids[number % len(ids)], uids[number % len(uids)]
        requests += [
            ("GET", "/api/v1/operations", None),
            ("GET", f"/api/v1/operations/{one}", None),
            ("GET", f"/api/v1/operations/{other}/state", None),
            ("GET", "/api/v1/actions?app=app-02", None),
            ("POST", "/api/v1/actions?app=app-03", body),
            ("GET", "/api/v1/operations?app=app-04", None),
            ("GET", f"/api/v1/actions/{uid}", None),
            ("GET", "/api/v1/operations?state=failed", None),
            ("GET", f"/api/v1/operations/{other}", None),
            ("POST", "/api/v1/previews?app=app-01", body),
            ("GET", "/api/v1/actions?app=app-01&text=invoice", None),
            ("GET", f"/api/v1/operations/{one}/state", None),
            ("GET", "/api/v1/operations/counts", None),
            ("GET", "/api/v1/status", None),
            ("POST", "/api/v1/actions?app=app-05", body),
            ("GET", "/api/v1/apps", None),
            ("GET", "/api/v1/operations?app=app-01&queue=heavy", None),
            ("GET", f"/api/v1/actions/{uid}/revisions", None),
            ("GET", f"/api/v1/operations/{other}/steps", None),
            ("POST", f"/api/v1/actions/{uid}/runs", "{}"),
        ]
    return requests


@contextmanager
def asking(
    web: Web, requests: Sequence[object], minute: datetime, rate: float
) -> Iterator[list[tuple[float, float, int]]]:
    """Ask around the beginning of *minute*; what was found is there at the end."""
    begin = minute.timestamp() - BEFORE_S
    asked = {
        "url": f"http://127.0.0.1:{web.port}",
        "keys": web.keys,
        "begin": begin,
        "rate": rate,
        "seconds": BEFORE_S + AFTER_S,
        "requests": requests,
    }
    found: list[tuple[float, float, int]] = []
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.asker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None  # a pipe was asked for
        json.dump(asked, process.stdin)
        process.stdin.close()
        yield found
        assert process.stdout is not None  # likewise
        for at, took, status in json.load(process.stdout):
            found.append((at - BEFORE_S, took, status))


def measure(
    servers: Servers, due: int, rate: float, rounds: int
) -> tuple[list[Minute], list[Minute], str]:
    """Return the minutes without requests, those with them, and what it cost."""
    servers = empty(servers, "load")
    fill(servers, SIZE)
    with psycopg.connect(servers.dsn) as connection:
        for statement in _SETTLE:
            connection.execute(statement)
    peer = Due(servers, due + BY_HAND, due)
    first = find_first_minute(time.time() + HEAD_START_S + due / 1_000)
    peer.register_from(first)
    requests = make_requests(servers)
    quiet: list[Minute] = []
    busy: list[Minute] = []
    with (
        run_web(servers) as web,
        run_scheduler(servers),
        redis.Redis.from_url(servers.redis) as client,
    ):
        idle_mb, cpu_s = web.measure()
        each = int(rate * (BEFORE_S + AFTER_S))
        for number in range(2 * rounds):
            minute = first + number * MINUTE
            answers: list[tuple[float, float, int]] = []
            if number % 2:
                start = number // 2 * each % len(requests)
                turn = (requests * 2)[start : start + each]
                time.sleep(max(0.0, minute.timestamp() - BEFORE_S - 2 - time.time()))
                with asking(web, turn, minute, rate) as answers:
                    lags = watch_minute(client, minute, number * due, due)
            else:
                lags = watch_minute(client, minute, number * due, due)
            per_s = due / max(0.001, lags[-1] - lags[0])
            (busy if number % 2 else quiet).append(
                Minute(lags[0], lags[-1], per_s, answers)
            )
        memory_mb, after_s = web.measure()
    asked = sum(len(each.answers) for each in busy)
    cost = (
        f"the web process: {idle_mb:.0f} MB before, {memory_mb:.0f} MB after "
        f"{asked:,} requests; {(after_s - cpu_s) / max(1, asked) * 1000:.1f} ms of CPU "
        "each"
    )
    return quiet, busy, cost


def print_minutes(quiet: Sequence[Minute], busy: Sequence[Minute]) -> None:
    """Print the medians of both, and what they are to each other."""
    print(f"{'median of a minute':<24}{'without':>10}{'with':>10}{'ratio':>8}")
    for name in ("first_s", "last_s", "per_s"):
        pair = [
            statistics.median(getattr(each, name) for each in minutes)
            for minutes in (quiet, busy)
        ]
        what = {"per_s": "messages a second"}.get(name, f"{name[:-2]} message, s")
        digits = 0 if name == "per_s" else 3
        print(
            f"{what:<24}{pair[0]:>10,.{digits}f}{pair[1]:>10,.{digits}f}"
            f"{pair[1] / pair[0]:>8.2f}"
        )


def print_answers(busy: Sequence[Minute]) -> None:
    """Print what requests took while messages left, and otherwise."""
    parts: dict[str, list[float]] = {"while messages left": [], "otherwise": []}
    refused: dict[int, int] = {}
    for minute in busy:
        for at, took, status in minute.answers:
            leaving = -took < at < minute.last_s
            if status >= HTTPStatus.OK:
                parts["while messages left" if leaving else "otherwise"].append(took)
            if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
                refused[status] = refused.get(status, 0) + 1
    print(f"\n{'requests':<24}{'count':>10}{'p50 ms':>10}{'p95 ms':>10}{'most':>8}")
    for name, took in parts.items():
        if took:
            took.sort()
            p50, p95, most = took[len(took) // 2], took[len(took) * 95 // 100], took[-1]
            print(
                f"{name:<24}{len(took):>10,}{p50 * 1000:>10.1f}{p95 * 1000:>10.1f}"
                f"{most * 1000:>8.0f}"
            )
    told = ", ".join(f"{count:,} of {status}" for status, count in refused.items())
    print(f"errors (0: no answer, -1: not sent in time): {told or 'none'}")


def main() -> int:
    """Print what was seen; return the exit code."""
    parser = make_parser("api_load", __doc__)
    parser.add_argument("--due", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=200, help="requests a second")
    parser.add_argument("--rounds", type=int, default=5, help="of two minutes each")
    options = parser.parse_args()
    with run_servers() as servers:
        quiet, busy, cost = measure(servers, options.due, options.rate, options.rounds)
    print(
        f"{options.due:,} due each minute, {options.rate:g} requests a second, "
        f"{options.rounds} rounds; {describe_load()}\n"
    )
    print_minutes(quiet, busy)
    print_answers(busy)
    print(cost)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
