"""A database that refuses: rights revoked, values that do not fit (PostgreSQL)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from prometheus_client import REGISTRY

from actions.lease import Leader
from celery_app.tasks import execute
from migrations.schema import migrate
from models.back_off import LEASE
from models.database.engine import make_engine, writing
from models.database.journal import note_change
from models.database.tables import changes
from models.errors import UnreachableError
from operations.claiming.heart import Heart, Worker
from operations.steps import STEPS
from overview.doctor.checks.database import find_missing_grants
from overview.doctor.examine import find_trouble
from scheduler_server import PAUSE_S, Scheduler
from telemetry import configure_logging
from tests.conftest import new_database, show_url
from tests.database import read_by, write_by
from tests.presence import SETTINGS
from tests.scheduling import (
    Clock,
    FakeSender,
    NoTasks,
    add_revision,
    get,
    make_operation,
    make_scheduler,
    make_settings,
    record_all,
)
from tests.unit.operations.fakes import World

SECRET = "correct horse battery staple"
DAILY = make_operation()


@pytest.fixture
def logs() -> io.StringIO:
    """Give what is logged, by us and by libraries."""
    stream = io.StringIO()
    configure_logging(log_format="json", stream=stream)
    return stream


class Role:
    """
    A role that may do all, until told otherwise; *engine* is of its own.

    Args:
        owner: Of the tables.

        url: Of the database.
    """

    def __init__(self, owner: sa.Engine, url: str) -> None:
        """Make it."""
        self._owner = owner
        self.name = f"tests_{uuid4().hex[:8]}"
        self.tell("create role {}", "grant all on all tables in schema public to {}")
        self.engine = make_engine(url)
        sa.event.listen(self.engine, "connect", self._become)

    def _become(self, connection: Any, _record: object) -> None:
        connection.execute(f"set role {self.name}")
        connection.commit()

    def tell(self, *commands: str) -> None:
        """Do *commands* as the owner, with its name put in."""
        with writing(self._owner) as connection:
            for command in commands:
                connection.execute(sa.text(command.format(self.name)))

    def drop(self) -> None:
        """Let it be gone, with what it owns."""
        self.engine.dispose()
        self.tell("drop owned by {}", "drop role {}")


@pytest.fixture
def role(postgres_engine: sa.Engine, postgres_url: str) -> Iterator[Role]:
    """Give a role that is gone after the test."""
    made = Role(postgres_engine, postgres_url)
    yield made
    made.drop()


@pytest.fixture
def run(
    role: Role, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], object]], sa.Row[Any]]:
    """Give what executes DAILY by a step that does as told, and returns its row."""

    def execute_by(step: Callable[[], object]) -> sa.Row[Any]:
        add_revision(role.engine)
        record_all(role.engine, DAILY)
        monkeypatch.setitem(STEPS, "run_task", lambda *_: step() or {})
        execute(make_worker(role.engine, tmp_path), str(DAILY.id), "w")
        return get(role.engine, DAILY.id)

    return execute_by


class QuietHeart(Heart):
    """Never beats by itself."""

    def start_beating(self) -> None:
        """Do nothing."""


def make_worker(engine: sa.Engine, folder: Path) -> Worker:
    """Return a worker whose heart never beats by itself."""
    heart = QuietHeart(engine, lease=LEASE, every=LEASE)
    return Worker(engine, World(folder).make_context().ports, heart)


@pytest.mark.parametrize("right", ["update on leases", "select on scheduled_actions"])
def test_revoked_right_ends_no_scheduler(role: Role, logs: io.StringIO, right: str):
    """It says so once a minute, without a traceback, and goes on when it is granted."""
    scheduler = make_scheduler(role.engine)
    role.tell(f"revoke {right} from {{}}")
    for _ in range(5):
        assert scheduler.wake() == PAUSE_S
    refused = logs.getvalue()
    role.tell(f"grant {right} to {{}}")
    scheduler.wake()

    table = right.rpartition(" ")[2]
    assert 1 == refused.count("refused access")
    assert f"permission denied for table {table}" in refused
    assert "Traceback" not in refused
    assert "tick_done" in logs.getvalue()


def test_leader_that_may_not_write_says_so_when_its_lease_ends(
    role: Role, logs: io.StringIO
):
    """Until then it leads; then neither its metrics nor its log say that it does."""
    clock = Clock()
    scheduler = Scheduler(
        role.engine,
        Leader(role.engine, monotonic=clock),
        FakeSender(),
        NoTasks(role.engine),
        make_settings(),
        monotonic=clock,
    )
    scheduler.wake()
    role.tell("revoke update on leases from {}")
    led = []
    for _ in range(2):
        scheduler.wake()
        led.append(REGISTRY.get_sample_value("minutehand_is_leader"))
        clock.now += LEASE.total_seconds()

    assert [1, 0] == led
    assert 1 == logs.getvalue().count('"lease_lost"')


def test_missing_grants_are_named(role: Role):
    """With what gives them; when all is granted, nothing is said."""
    role.tell("revoke insert, update on operations from {}")
    missing = read_by(role.engine, find_missing_grants)
    role.tell("grant insert, update on operations to {}")
    granted = read_by(role.engine, find_missing_grants)

    expected = (
        f"the role {role.name} lacks INSERT, UPDATE on operations."
        f" Run: GRANT INSERT, UPDATE ON operations TO {role.name}"
    )
    assert ([expected], []) == (missing, granted)


@pytest.mark.parametrize("lacking", ["CREATE", "USAGE, CREATE"])
def test_right_to_make_the_tables_is_named(postgres_server_url: str, lacking: str):
    """Since PostgreSQL 15 nobody but the owner of a database may make any there."""
    with new_database(postgres_server_url, "template0") as url:
        owner = make_engine(show_url(url))
        with writing(owner) as connection:
            connection.exec_driver_sql(f"revoke {lacking} on schema public from public")
        role = Role(owner, show_url(url))
        with pytest.raises(UnreachableError, match="The doctor lists the missing"):
            migrate(role.engine)
        found = list(find_trouble(role.engine, SETTINGS))
        role.tell(f"grant {lacking} on schema public to {{}}")
        migrate(role.engine)
        role.drop()
        owner.dispose()

    expected = f"Run: GRANT {lacking} ON SCHEMA public TO {role.name}"
    assert [False, True] == [expected in each.detail for each in found]


def test_look_that_is_refused_is_a_finding(role: Role):
    """What may not be read is told, and all else is looked at still."""
    role.tell("revoke all on deliveries from {}")

    names = ("grants", "troubles", "tzdata")
    grants, troubles, zones = find_trouble(role.engine, SETTINGS, names=names)

    assert "GRANT SELECT, INSERT, UPDATE, DELETE ON deliveries" in grants.detail
    assert ("troubles", "bad") == (troubles.subject, troubles.health)
    assert "permission denied" in troubles.detail
    assert ("tzdata", "ok") == (zones.subject, zones.health)


def test_role_needs_not_be_able_to_alter_the_record_of_changes(role: Role):
    """Without the right to, whoever gets hold of the role cannot; changes are noted."""
    role.tell("revoke update, delete on changes from {}")
    write_by(role.engine, note_change, "key", "k", "created", app=None)
    missing = read_by(role.engine, find_missing_grants)
    with pytest.raises(UnreachableError), writing(role.engine) as connection:
        connection.execute(sa.update(changes).values(note="forged"))

    assert [] == missing


def test_message_waits_while_its_operation_may_not_be_claimed(
    role: Role, tmp_path: Path
):
    """As with a database that is away: the task gives its message back."""
    add_revision(role.engine)
    record_all(role.engine, DAILY)
    role.tell("revoke insert on operation_steps from {}")

    with pytest.raises(UnreachableError, match="table operation_steps"):
        execute(make_worker(role.engine, tmp_path), str(DAILY.id), "w")

    row = get(role.engine, DAILY.id)
    assert ("pending", 0) == (row.state, row.attempt)


def test_end_that_may_not_be_written_is_put_back(
    role: Role, run: Callable[..., sa.Row[Any]], logs: io.StringIO
):
    """Its step ran; that it did cannot be said, so it waits, and costs no attempt."""
    row = run(lambda: role.tell("revoke update on operation_steps from {}"))

    assert ("pending", 0) == (row.state, row.attempt)
    assert row.reason.startswith(
        "platform: the database refused access: permission denied"
    )
    assert "Traceback" not in logs.getvalue()


@pytest.mark.parametrize(
    "statement",
    [
        "insert into small_apps (uid, name) values (:secret, :secret), (:secret, 'x')",
        "insert into small_apps (uid, name) values (:secret, null)",
        "select cast(:secret as integer)",
        "select cast(:secret as jsonb)",
        "select * from no_such_table where x = :secret",
        "select 'correct horse battery staple' from no_such_table",
    ],
)
def test_error_nobody_expected_shows_no_data(
    role: Role, run: Callable[..., sa.Row[Any]], logs: io.StringIO, statement: str
):
    """Neither in the row, nor in the traceback: not the statement, not its values."""

    def err() -> None:
        with writing(role.engine) as connection:
            connection.execute(sa.text(statement), {"secret": SECRET})

    row = run(err)

    assert "failed" == row.state
    assert "Error" in row.error
    assert "Traceback" in logs.getvalue()
    for text in (row.error, logs.getvalue()):
        assert SECRET not in text
        assert "small_apps (uid" not in text
        assert "x = " not in text
