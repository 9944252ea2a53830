"""
How much room operations take on PostgreSQL: rows and bytes of each table.

    python -m benchmarks.sizes [OPERATIONS]

Rows are inserted as the scheduler and its workers leave them: seven in ten run a task,
two send a mail to three people, one refreshes and publishes; a hundredth failed.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from time import perf_counter

import sqlalchemy as sa
from rich.console import Console
from rich.table import Table

from benchmarks.servers import run_servers
from migrations.schema import migrate
from models.database.engine import make_engine

#: Bound by hand: what a benchmark inserts is no statement of the product.
_OPERATIONS = """
insert into operations (id, action_uid, action_revision, app, trigger, triggered_by,
    occurrence, queue, overlap, state, reason, error, attempt, recorded_at, send_at,
    sent_at, sends, started_at, finished_at, worker, fence)
select gen_random_uuid(), 'action-' || n % 10000, 1, 'app-' || n % 20, 'schedule',
    'Scheduled action "action ' || n % 10000 || '"', at,
    case when n % 10 = 0 then 'heavy' else 'quick' end,
    case when n % 10 = 0 then 'skip' else 'allow' end,
    case when n % 100 = 1 then 'failed' else 'succeeded' end,
    case when n % 100 = 1 then 'step failed' end,
    case when n % 100 = 1 then 'run_task: the broker took nothing within 5 s' end,
    1, at, at, at, 1, at, at + interval '1 s', 'quick@worker-1/ForkPoolWorker-1', 1
from (
    select n, cast(:start as timestamptz) + n * interval '1 s' as at
    from generate_series(cast(:first as bigint), cast(:last as bigint)) n
) numbers
"""
_STEPS = """
insert into operation_steps (operation_id, position, name, state, attempt, started_at,
    finished_at, progress, result)
select id, position, name, state, 1, started_at, finished_at,
    case name when 'refresh' then jsonb '{"done": 2, "total": 2, "note": "b"}' end,
    case name
        when 'refresh' then jsonb '{"refreshed": ["a", "b"], "reused": []}'
        when 'publish' then jsonb '{"published": ["a", "b"]}'
        when 'send_email' then jsonb '{"sent": 3, "failed": 0, "uncertain": 0}'
        else jsonb '{"task_id": "5f8d4d3c-8f0e-5d7d-9d6f-0f3a1f6f0c11"}' end
from operations cross join lateral unnest(
    case when queue = 'heavy' then array['refresh', 'publish']
    when hashtext(cast(id as text)) % 9 in (0, 1) then array['send_email']
    else array['run_task'] end
) with ordinality as asked (name, position)
where recorded_at between cast(:begin as timestamptz) and cast(:end as timestamptz)
"""
_MARKS = """
insert into deliveries (operation_id, step, recipient, state, updated_at)
select operation_id, name, 'user-' || who, 'sent', finished_at
from operation_steps cross join generate_series(1, 3) who
where name = 'send_email'
    and finished_at > cast(:begin as timestamptz)
    and finished_at <= cast(:end as timestamptz) + interval '1 s'
"""
_SIZES = """
select relname, cast(reltuples as bigint), pg_table_size(oid), pg_indexes_size(oid)
from pg_class
where relname in ('operations', 'operation_steps', 'deliveries')
order by pg_total_relation_size(oid) desc
"""

_LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)

#: Operations inserted at once: each insert ends well within the deadline.
_CHUNK = 50_000


def fill(engine: sa.Engine, count: int, start: datetime = _LONG_AGO) -> None:
    """Insert *count* finished operations, a second each, from *start* on."""
    for first in range(1, count + 1, _CHUNK):
        last = min(count, first + _CHUNK - 1)
        with engine.begin() as connection:
            connection.execute(sa.text("set local statement_timeout = '60 s'"))
            numbers = {"first": first, "last": last, "start": start}
            connection.execute(sa.text(_OPERATIONS), numbers)
            begin, end = (start + n * timedelta(seconds=1) for n in (first, last))
            for statement in (_STEPS, _MARKS):
                connection.execute(sa.text(statement), {"begin": begin, "end": end})


def main() -> None:
    """Fill a database of its own, and print what its tables take."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    console = Console()
    with run_servers() as servers:
        engine = make_engine(servers.postgres)
        migrate(engine)
        began = perf_counter()
        fill(engine, count)
        with engine.connect() as connection:
            for name in ("operations", "operation_steps", "deliveries"):
                connection.execute(sa.text(f"analyze {name}"))
            sizes = connection.execute(sa.text(_SIZES)).all()
        engine.dispose()
    table = Table("table", "rows", "table, MB", "indexes, MB", box=None)
    for name, rows, heap, indexes in sizes:
        table.add_row(name, f"{rows:,}", f"{heap / 1e6:,.0f}", f"{indexes / 1e6:,.0f}")
    total = sum(heap + indexes for _name, _rows, heap, indexes in sizes)
    console.print(table)
    console.print(
        f"{total / 1e6:,.0f} MB in all, {total / count:,.0f} bytes an operation; "
        f"filled in {perf_counter() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
