"""
How late each tick begins while much else is to be done, all at once.

Run it as ``python -m benchmarks.minute``. Beside a million finished operations there
are many that wait to be sent, whose message was lost, that failed and are to be
reported, and many actions whose pauses end in the first minute. A real
``scheduler_server.py`` begins with all of that, while a hundred actions are due each
minute. Whoever looks at the database from outside sees when each tick began; none is to
be later than two seconds.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime

import psycopg

from benchmarks.command import describe_load, make_parser, run_command
from benchmarks.database_time import fill
from benchmarks.servers import Servers, empty, run_servers
from benchmarks.tenants import MINUTE, Quick, find_first_minute, run_scheduler

#: What is promised while the database answers.
GOAL_S = 2.0

DUE = 100
_LOOK_EVERY_S = 0.1

_SIZES = {
    "done": (1_000_000, "operations that are final"),
    "pending": (300_000, "operations that wait to be sent"),
    "queued": (100_000, "operations whose message was lost"),
    "failed": (20_000, "operations that are to be reported"),
    "pauses": (20_000, "actions whose pauses end together"),
}

_OPERATIONS = """
insert into operations (id, action_uid, action_revision, app, trigger, triggered_by,
    occurrence, queue, overlap, state, reason, recorded_at, send_at, sent_at, sends,
    finished_at)
select gen_random_uuid(), 'action-' || n %% 10, 1, 'app', 'schedule', 'a benchmark', at,
    'quick', 'allow', %(state)s::text, 'as the benchmark says', at, at,
    case %(state)s::text when 'queued' then at - interval '1 day' end, 0,
    case %(state)s::text when 'failed' then at end
from (
    select n, statement_timestamp() - n * interval '1 ms' as at
    from generate_series(1, %(count)s::int) n
) numbers
"""
_PAUSES = """
update scheduled_actions set paused_at = created_at, paused_until = %s
where next_due_at > created_at
"""
_TICK = "select last_tick_at from leases"
_LEFT = """
select count(*) filter (where state = 'pending'),
    count(*) filter (where state = 'failed' and noticed_at is null),
    (select count(*) from scheduled_actions where paused_at is not null)
from operations where state in ('pending', 'failed') and triggered_by = 'a benchmark'
"""


def prepare(servers: Servers, counts: dict[str, int]) -> datetime:
    Quick(servers, DUE + counts["pauses"], DUE).register()
    fill(servers, counts["done"], datetime(2026, 1, 1, tzinfo=UTC))
    with psycopg.connect(servers.dsn, autocommit=True) as connection:
        for state in ("pending", "queued", "failed"):
            values = {"state": state, "count": counts[state]}
            connection.execute(_OPERATIONS, values)
        # the update of so many actions and a vacuum take a while, too
        first = find_first_minute(sum(counts.values()) / 20_000)
        connection.execute(_PAUSES, (first,))
        connection.execute("vacuum analyze")
    return first


def watch(servers: Servers, first: datetime, minutes: int) -> list[float]:
    """Return how late the tick of each minute began, from *first* on."""
    ticks: dict[datetime, float] = {}
    with psycopg.connect(servers.dsn, autocommit=True) as connection:
        while (now := datetime.now(UTC)) < first + minutes * MINUTE:
            for (ticked_at,) in connection.execute(_TICK).fetchall():
                minute = ticked_at and ticked_at.replace(second=0, microsecond=0)
                if not minute or minute in ticks or not first <= ticked_at <= now:
                    continue
                ticks[minute] = (ticked_at - minute).total_seconds()
                left = connection.execute(_LEFT).fetchone()
                print(
                    f"{ticked_at:%H:%M} began {ticks[minute]:.2f} s late; left to send,"
                    f" to report, paused: {left}; {describe_load()}",
                    flush=True,
                )
            time.sleep(_LOOK_EVERY_S)
    return [ticks.get(first + n * MINUTE, 60.0) for n in range(minutes)]


def main() -> int:
    parser = make_parser("benchmarks.minute", __doc__)
    for name, (size, words) in _SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size, help=words)
    parser.add_argument("--minutes", type=int, default=5)
    options = parser.parse_args()
    with run_servers() as shared:
        servers = empty(shared, "minute")
        began = time.monotonic()
        counts = {name: getattr(options, name) for name in _SIZES}
        first = prepare(servers, counts)
        print(f"filled in {time.monotonic() - began:.0f} s; {describe_load()}")
        with run_scheduler(servers, NOTICE_MAIL="ops@example.org"):
            late = watch(servers, first, options.minutes)
    print("seconds late: " + ", ".join(f"{each:.2f}" for each in late))
    return int(max(late) > GOAL_S)


if __name__ == "__main__":
    sys.exit(run_command(main))
