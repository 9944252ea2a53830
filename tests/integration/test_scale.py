"""
Sizes at which a design that is a little wrong shows, counted rather than timed.

On PostgreSQL, whose plans are those of a table that has been analysed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from actions.explaining.history import fetch_histories
from actions.load.foresee import Whose, count_due
from api.answers import ROOT
from dispatch.locked_rows import LockedRows
from dispatch.noticer import Noticer
from dispatch.watching import LateLook
from models.database.engine import make_engine, read_clock, reading, writing
from models.database.tables import operations
from models.database.transaction import AtOnce
from models.operation_state import Queue
from models.role import Role
from operations.list_operations import fetch_latest
from operations.operation_filter import OperationFilter
from operations.sending.order import LINES_AT_ONCE, has_sendable
from operations.task_ends import fetch_overdue
from operations.turns import HAS_TURN
from overview.installation.figures import fetch_held, fetch_running, is_scheduled
from tests.conftest import new_database, show_url
from tests.database import execute, fetch_rows, read_by
from tests.integration.api.conftest import APP, UNLIMITED, run_web
from tests.integration.test_budget import MOST_STATEMENTS, counting
from tests.scheduling import (
    FakeSender,
    add_app,
    at,
    copy_action,
    edit_action,
    fetch_all,
    make_dispatcher,
    make_operation,
    post_at,
    record_all,
    tick,
)
from web.now.fetch_running import fetch_under_way
from web.operations.fetch_facets import count_facets

SEVEN = at("07:00")
WEEK = timedelta(days=7)

CROWD = 10_000
FEW = 10

USERS = 50_000
WAITING = 2_000
SEEN = "instance.user.last_seen"


def test_crowded_app_delays_nobody(postgres_engine: sa.Engine):
    """Of 10,000 due in one app and ten in another, the ten are in the first 100."""
    engine = postgres_engine
    add_app(engine, "crowd")
    add_app(engine, "few")
    many = post_at(engine, SEVEN, "crowd")
    copy_action(engine, many, CROWD - 1, prefix="crowd")
    # the last of them, by whatever order but that of turns
    few = post_at(engine, SEVEN, "few", name="z", uid="zzz")
    copy_action(engine, few, FEW - 1, prefix="zzz")
    sender = FakeSender()

    with pytest.raises(EnoughError):
        tick(make_dispatcher(engine, sender), SEVEN, meanwhile=stop_at_fourth())

    messages = [message for batch in sender.batches for message in batch]
    places = [n for n, each in enumerate(messages) if '"z' in each.triggered_by]
    assert FEW == len(places)
    assert places[-1] < 100


class EnoughError(BaseException):
    """Not an Exception, so that the tick does not look for its culprit."""


def stop_at_fourth() -> Callable[[], None]:
    """Return what ends a tick before its fourth chunk, when the second was sent."""
    chunks = count(1)

    def meanwhile() -> None:
        if next(chunks) == 4:
            raise EnoughError

    return meanwhile


def add_users_seen_long_ago(engine: sa.Engine) -> None:
    """Add users, one of whom has been away for a week at SEVEN; the others not yet."""
    with writing(engine) as connection:
        connection.execute(
            sa.text(
                "insert into users (app, id, email, disabled, activated_at, created_at)"
                " select 'app', n, n || '@example.org', false, :now, :now"
                " from generate_series(1, :count) n"
            ),
            {"count": USERS, "now": SEVEN - 2 * WEEK},
        )
        connection.execute(
            sa.text(
                "insert into events (id, app, name, user_id, at, recorded_at)"
                " select gen_random_uuid(), 'app', :name, n, first + n * step,"
                " first + n * step from generate_series(1, :count) n, (values"
                " (cast(:first as timestamptz), interval '5 seconds')) v(first, step)"
            ),
            {"count": USERS, "name": SEEN, "first": SEVEN - WEEK - timedelta(0, 5)},
        )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("analyze")


def test_event_actions_read_only_the_events_that_are_due(postgres_engine: sa.Engine):
    """
    Of 50,000 users one has been away for a week; 2,000 actions wait for that. One
    operation for each, in few statements, none of which reads all events.
    """
    engine = postgres_engine
    add_app(engine)
    uid = post_at(engine, SEVEN, when={"after": SEEN, "delay": "P7D"})
    edit_action(engine, uid, effective_from=SEVEN - WEEK)
    copy_action(engine, uid, WAITING - 1)
    add_users_seen_long_ago(engine)
    dispatcher = make_dispatcher(engine)
    scans = count_scans(engine, "events")

    with counting(engine) as counts:
        report = tick(dispatcher, SEVEN)

    assert (WAITING, WAITING) == (report.due, report.recorded)
    assert counts.statements <= MOST_STATEMENTS * WAITING
    assert scans == count_scans(engine, "events")


def count_scans(engine: sa.Engine, table: str) -> int:
    """Return how often *table* was read from its beginning to its end."""
    engine.dispose()  # a session reports what it read when it ends
    with engine.connect() as connection:
        query = "select seq_scan from pg_stat_user_tables where relname = :table"
        found = connection.execute(sa.text(query), {"table": table})
        return int(found.scalar_one())


#: Operations that there are, in the time of so many hours; and those of them that one
#: statement may read for a page. The largest bound is that of what filters count.
HAPPENED, HOURS = 30_000, 2_000
MOST_READ = 22_000

#: Pages and lists that people have open; {failed} is the id of an operation, {queued}
#: the minute of one that waits for a worker.
ASKED = (
    *("/", "/actions", "/actions?trouble=any", "/actions?text=copy", "/actions/copy1"),
    *("/operations", "/operations?range=all", "/operations?range=all&state=failed"),
    *("/operations?state=running", "/operations?state=uncertain&range=all"),
    *("/operations?state=retrying", "/operations?app=shop", "/operations?queue=heavy"),
    *("/operations?action=copy1", "/operations?text=copy&range=all"),
    "/operations?from=2026-01-01T00:00Z&until=2026-01-02T00:00Z",
    *("/operations/{failed}", "/operations/{failed}/log", "/workers"),
    *("/timeline", "/timeline?span=7d&app=shop", "/calendar", "/calendar?app=shop"),
    *("/calendar/planned", "/apps", "/apps/shop", "/search?q=copy", "/pause"),
    *(
        "/mails",
        "/mails?state=failed",
        "/mails?state=sending",
        "/mails?app=shop",
        "/events",
        "/events?app=shop",
    ),
    *("/settings", "/settings/changes", "/settings/doctor"),
    *(f"{ROOT}/operations?state=missed", f"{ROOT}/operations?reason=overlap"),
    *(f"{ROOT}/status", f"{ROOT}/status?app=shop", f"{ROOT}/load"),
    f"{ROOT}/actions/copy1/why?at={{queued}}",
    *(f"{ROOT}/mails", f"{ROOT}/mails?action=seldom", f"{ROOT}/mails?recipient=nobody"),
    *(f"{ROOT}/events", "/settings/support-bundle"),
)


def add_history(engine: sa.Engine) -> dict[str, str]:
    """Add what 20 actions ran and mailed; return what the addresses name."""
    post_at(engine, SEVEN, APP, name="ran once, and mailed nobody", uid="seldom")
    for number in range(20):
        post_at(engine, SEVEN, APP, name=f"copy {number}", uid=f"copy{number}")
    with writing(engine) as connection:
        connection.execute(
            sa.text(
                "insert into operations (id, action_uid, action_revision, app, trigger,"
                " triggered_by, occurrence, queue, overlap, state, recorded_at,"
                " send_at, started_at, finished_at)"
                " select gen_random_uuid(), case when n = 3 then 'seldom'"
                " else 'copy' || n % 20 end, 1, :app, 'schedule',"
                " 'Scheduled action \"copy\"', due, 'quick', 'allow',"
                " case when n = 1 then 'queued' when n % 30 = 0 then 'failed'"
                " else 'succeeded' end,"
                " due, due, due, due from (select n, statement_timestamp()"
                " - n * make_interval(hours => :hours) / :count"
                " from generate_series(1, :count) n) made(n, due)"
            ),
            {"app": APP, "count": HAPPENED, "hours": HOURS},
        )
        connection.execute(
            sa.text(
                "insert into deliveries (operation_id, step, recipient, state,"
                " updated_at, app) select id, 'notify', 'somebody', 'sent',"
                " recorded_at, app from operations where action_uid <> 'seldom'"
            )
        )
        found = connection.execute(
            sa.text(
                "select (select id from operations where state = 'failed' limit 1)"
                " as failed, (select occurrence from operations"
                " where state = 'queued') as queued"
            )
        ).one()
    change(engine)
    return {"failed": str(found.failed), "queued": f"{found.queued:%Y-%m-%dT%H:%MZ}"}


def change(engine: sa.Engine, *statements: str) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # It looks at 30,000 rows: at all, so that no plan depends on chance.
        for each in (*statements, "vacuum analyze"):
            connection.exec_driver_sql(each)


@pytest.fixture(scope="module")
def history_template(postgres_server_url: str, postgres_template: str) -> Iterator[str]:
    """Give the name of a database in which much has happened: to make it takes long."""
    with new_database(postgres_server_url, postgres_template) as url:
        engine = make_engine(show_url(url))
        add_app(engine, APP)
        add_history(engine)
        engine.dispose()
        assert url.database is not None  # it was made with a name
        yield url.database


@pytest.fixture
def history(postgres_server_url: str, history_template: str) -> Iterator[sa.Engine]:
    """Give a copy of it."""
    with new_database(postgres_server_url, history_template) as url:
        engine = make_engine(show_url(url))
        yield engine
        engine.dispose()


@contextmanager
def explaining(engine: sa.Engine) -> Iterator[list[Any]]:
    """Fill a list with the plans of all statements, and what each read."""
    seen: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, text: str, given: Any, *_: Any) -> None:
        seen.append((text, given))

    plans: list[Any] = []
    sa.event.listen(engine, "before_cursor_execute", note)
    yield plans
    sa.event.remove(engine, "before_cursor_execute", note)
    with engine.connect() as connection:  # which commits nothing
        for text, given in seen:
            if re.match("select|with|update|insert|delete", text, re.IGNORECASE):
                asked = f"explain (analyze, timing off, format json) {text}"
                [[found]] = connection.exec_driver_sql(asked, given).scalars()
                plans.append(found["Plan"])


def find_scans(plan: dict[str, Any], table: str) -> Iterator[dict[str, Any]]:
    """Yield the parts of a plan that read *table*."""
    if plan.get("Relation Name") == table:
        yield plan
    for each in plan.get("Plans", ()):
        yield from find_scans(each, table)


def count_read(plan: dict[str, Any], table: str) -> int:
    """Return how many rows of *table* were read, whatever became of them."""
    read = "Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck"
    return sum(
        int(sum(scan.get(name, 0) for name in read) * scan["Actual Loops"])
        for scan in find_scans(plan, table)
    )


def count_most_read(plans: list[Any]) -> int:
    """Return how many operations one of the statements read at most."""
    return max(count_read(plan, "operations") for plan in plans)


def test_recording_reads_what_it_records(postgres_engine: sa.Engine):
    """Of 10,000 actions whose runs a monitor hears of, those of which ten ran."""
    engine = postgres_engine
    add_app(engine)
    uid = post_at(engine, SEVEN)
    edit_action(engine, uid, pings=True)
    copy_action(engine, uid, CROWD - 1)
    change(engine)
    ran = [make_operation(n)._replace(action_uid=f"copy{n:05}") for n in range(FEW)]

    with explaining(engine) as plans:
        record_all(engine, *ran)

    assert FEW == sum(count_read(plan, "scheduled_actions") for plan in plans)
    assert [0] * FEW == [row.pinged for row in fetch_all(engine)]


def test_what_is_shown_costs_no_look_at_all_that_happened(
    postgres_engine: sa.Engine, tmp_path: Path
):
    """A page reads a bounded number of operations and mails, of however many."""
    engine = postgres_engine
    read: dict[str, int] = {}
    with run_web(engine, tmp_path, UNLIMITED) as web:
        names = add_history(engine)
        key = {"Authorization": f"Bearer {web.keys[None, Role.ADMIN]}"}
        for path in ASKED:
            with explaining(engine) as plans:
                answer = web.client.get(path.format(**names), headers=key)
            assert answer.status_code in {200, 503}, path
            read[path] = max(
                count_read(plan, table)
                for plan in plans
                for table in ("operations", "deliveries")
            )

    assert {} == {path: count for path, count in read.items() if count > MOST_READ}
    assert max(read.values()) > MOST_READ / 2  # something is read at all


def test_a_period_long_ago_costs_what_was_due_in_it(history: sa.Engine):
    """
    Not what happened since then, also to count what filters would find; nor is all of
    it read for the first operations.
    """
    begin = read_by(history, read_clock) - timedelta(hours=HOURS / 2)
    a_day = OperationFilter(since=begin, until=begin + timedelta(days=1))
    due = 24 * HAPPENED // HOURS
    read = {}
    for wanted in (a_day, replace(a_day, queue=Queue.QUICK)):
        with explaining(history) as plans, reading(history) as connection:
            found = fetch_latest(connection, wanted, limit=50)
        assert 50 == len(found)
        read[wanted.queue] = count_most_read(plans)
    with explaining(history) as plans, reading(history) as connection:
        counted = count_facets(connection, a_day)

    assert read[None] < 100
    assert read[Queue.QUICK] < 2 * due
    assert due - 1 <= counted.total <= due + 1
    assert count_most_read(plans) < 2 * due


def test_audit_reads_all_actions_once_not_with_each_batch(postgres_engine: sa.Engine):
    """Their uids, and then of those of a batch what the rules need."""
    engine = postgres_engine
    add_app(engine)
    copy_action(engine, post_at(engine, SEVEN), CROWD - 1)
    change(engine)

    with explaining(engine) as plans:
        each = fetch_histories(engine, since=SEVEN - WEEK, until=SEVEN, batch=20)
        found = list(islice(each, 100))

    assert 100 == len(found)
    assert sum(count_read(plan, "scheduled_actions") for plan in plans) < 2 * CROWD


def test_whether_a_queue_is_needed_costs_no_look_at_all_actions(
    postgres_engine: sa.Engine,
):
    """Of 10,000 actions none is on it; nor does it to count those due in a while."""
    engine = postgres_engine
    add_app(engine)
    copy_action(engine, post_at(engine, SEVEN), CROWD - 1)
    change(engine)

    with explaining(engine) as plans, reading(engine) as connection:
        assert not is_scheduled(connection, Queue.HEAVY, None)
        due = count_due(connection, Whose(queue=Queue.HEAVY))

    assert 0 == due
    assert 0 == sum(count_read(plan, "scheduled_actions") for plan in plans)


def test_a_part_of_what_waits_costs_no_look_at_all_of_it(history: sa.Engine):
    """
    Of 20,000 that wait among others a part reads those that it sends; nor do rescue and
    notices read what they leave alone.
    """
    change(
        history,
        "update operations set state = 'pending', finished_at = null"
        " where state = 'succeeded' and hashtext(id::text) > -500000000",
    )
    waiting = read_by(history, count_waiting)
    dispatcher = make_dispatcher(history)
    noticer = Noticer(history, dispatcher.leader, mail=("ops@example.org",))

    with explaining(history) as plans:
        sent = dispatcher.send_waiting()
        dispatcher.rescue()
        noticer.look()

    assert waiting > 10_000
    assert 1_000 == sent
    assert count_most_read(plans) <= 2 * sent


def test_what_is_under_way_costs_no_look_at_all_of_it(history: sa.Engine):
    """
    Whatever is with the broker, or waits for the end of its task: leases, shares, lost
    messages and deadlines are found without it.
    """
    change(
        history,
        "update operations set queue = 'quick', state = 'queued', lane = 1,"
        " sent_at = now() - interval '30 minutes', sends = 1, finished_at = null"
        " where state = 'succeeded'",
        "update operations set queue = 'tasks', state = 'pending',"
        " reason = 'waits for a task: nothing', send_at = now() + interval '1 hour'"
        " where state = 'queued' and hashtext(id::text) > 0",
    )
    dispatcher = make_dispatcher(history)
    dispatcher.outbox.part = 0.5

    with explaining(history) as plans:
        dispatcher.send_waiting()
        dispatcher.rescue()
        read_by(history, fetch_overdue, limit=500)

    assert len(plans) > 8
    assert count_most_read(plans) < 10


def test_burst_that_statistics_do_not_know_is_looked_at_once(history: sa.Engine):
    """As when thousands are due: all had ended when the table was analyzed."""
    burst = 1_000
    queue = (
        "update operations set queue = 'quick', state = 'queued', lane = 1, sends = 1,"
        " sent_at = now(), finished_at = null where id in (select id from operations"
        f" where state = 'succeeded' limit {burst})"
    )
    for each in "alter table operations set (autovacuum_enabled = off)", queue:
        execute(history, sa.text(each))
    dispatcher = make_dispatcher(history)

    with explaining(history) as plans:
        dispatcher.rescue()

    assert count_most_read(plans) <= burst


def test_what_runs_costs_no_look_at_what_waits(history: sa.Engine):
    """Nor does what is tried again or held by the platform, of 20,000 that wait."""
    some = (
        "select id from operations where state = 'pending' and reason is null limit 5"
    )
    change(
        history,
        "update operations set state = 'pending', finished_at = null,"
        " reason = case when hashtext(id::text) > 0 then 'waits for a task' end"
        " where state = 'succeeded'",
        *(
            f"update operations set {values} where id in ({some})"
            for values in (
                "state = 'running', claim_token = gen_random_uuid()",
                "attempt = 1, reason = 'step failed'",
                "reason = 'platform: no space left'",
            )
        ),
    )

    with explaining(history) as plans, reading(history) as connection:
        under_way = fetch_under_way(connection)
        running = fetch_running(connection, limit=100)
        held = fetch_held(connection)

    assert held is not None
    assert (10, 5, 5) == (len(under_way), len(running), held.count)
    assert count_most_read(plans) < 1_000


def test_what_is_expected_costs_no_look_at_all_that_runs(history: sa.Engine):
    """Those are read that may be late now, and whether one that was late still runs."""
    due = "select id from operations where expected_at is not null limit 5"
    change(
        history,
        "update operations set state = 'running', finished_at = null,"
        " started_at = now(), expected_at = now() + interval '1 hour'"
        " where state = 'succeeded'",
        f"update operations set expected_at = now() where id in ({due})",
    )
    leader = make_dispatcher(history).leader
    noticer = Noticer(history, leader, mail=("ops@example.org",))

    with explaining(history) as plans:
        looked = [LateLook(history, leader, noticer).look() for _ in range(2)]

    assert [5, 0] == looked
    assert count_most_read(plans) <= 2 * 5


@pytest.mark.parametrize("lines", [1, HAPPENED // 3])
def test_lines_cost_no_look_at_what_stands_in_them(history: sa.Engine, lines: int):
    """
    However many wait behind others (``overlap: queue``): a look goes from line to line,
    past so many of them; so does a backfill, and a claim asks for what is ahead.
    """
    change(
        history,
        "update operations set overlap = 'queue', state = 'pending',"
        f" action_uid = 'line' || mod(abs(hashtext(id::text)), {lines}),"
        " finished_at = null where state = 'succeeded'",
        # what is under way in each
        "update operations set state = 'queued', sent_at = now() where id in"
        " (select distinct on (action_uid) id from operations where overlap ="
        " 'queue' order by action_uid, recorded_at)",
    )
    under_way = sa.and_(operations.c.overlap == "queue", operations.c.state == "queued")
    first = fetch_rows(history, sa.select(operations.c.id).where(under_way)).scalar()
    outbox = make_dispatcher(history).outbox

    with explaining(history) as plans, writing(history) as connection:
        outbox.prepare(connection)
        transaction = AtOnce(connection)
        assert [] == outbox.look(transaction, outbox.mark(transaction, LockedRows()))()
        assert not has_sendable(connection, Queue.QUICK)
        asked = sa.select(operations.c.id).where(operations.c.id == first, HAS_TURN)
        assert first == connection.execute(asked).scalar()

    read = count_most_read(plans)
    # of a line: who stands in it, in some parts of the plan, and its first
    assert read <= 8 * min(lines, LINES_AT_ONCE) + 10


def count_waiting(connection: sa.Connection) -> int:
    query = "select count(*) from operations where state = 'pending'"
    return int(connection.exec_driver_sql(query).scalar_one())
