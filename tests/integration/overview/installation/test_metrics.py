"""The metrics of work: what the table says, read when they are asked for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from prometheus_client import CollectorRegistry

from models.database.engine import db_now
from models.operation_state import FINAL_STATES, OperationState, Queue, Reason
from overview.doctor.thresholds import LITTLE_SPACE
from overview.installation.metrics import BOUNDS, KEPT_S, WorkMetrics
from telemetry import METRICS_OF_WORK
from tests.presence import give_sign, make_worker
from tests.scheduling import HOUR, MINUTE, Clock, add_app, make_settings, put


@pytest.fixture
def clock() -> Clock:
    return Clock()


def make_registry(
    url: str, *, apps: str = "", clock: Clock | None = None, leads: bool = True
) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(
        WorkMetrics(
            # A busy machine is no reason for another answer.
            make_settings(
                DATABASE_URL=url, METRICS_APPS=apps, DATABASE_TIMEOUT="PT50S"
            ),
            leads=lambda: leads,
            monotonic=clock or Clock(),
            deadline=MINUTE,
        )
    )
    return registry


def add(engine: sa.Engine, app: str = "app", **values: Any) -> None:
    put(engine, id=uuid4(), app=app, **values)


def read(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"minutehand_{name}", labels)


def test_queues_are_told_by_depth_and_age(engine: sa.Engine, database_url: str):
    """What runs counts, and does not wait."""
    add(engine, queue="quick", recorded_at=db_now(-2 * MINUTE))
    add(engine, queue="quick", state="running", recorded_at=db_now(-HOUR))
    give_sign(engine, make_worker("a", ["quick"]))
    give_sign(engine, make_worker("gone", ["quick"]), age=HOUR)
    registry = make_registry(database_url)

    assert 1 == read(registry, "work_read")
    assert 1 == read(registry, "queue_depth", queue="quick", state="pending")
    assert 1 == read(registry, "queue_depth", queue="quick", state="running")
    oldest = read(registry, "queue_oldest_waiting_seconds", queue="quick")
    assert oldest is not None
    assert 120 <= oldest < 180
    assert 1 == read(registry, "queue_workers", queue="quick")
    assert 4 == read(registry, "queue_slots", queue="quick")
    assert 0 == read(registry, "queue_workers", queue="heavy")
    # The alert on a queue without a worker would call for one that there cannot be.
    assert read(registry, "queue_workers", queue="tasks") is None


def test_what_doctor_finds_is_told_by_look(engine: sa.Engine, database_url: str):
    """Nobody leads, a workspace fills up, and the mail server is well."""
    give_sign(engine, make_worker("a", free_bytes=LITTLE_SPACE - 1))
    registry = make_registry(database_url)

    assert [2, 1, 0] == [
        read(registry, "health", look=name) for name in ("leader", "space", "mail")
    ]
    assert read(registry, "health", look="broker") is None


def test_every_series_is_there_before_anything_happened(database_url: str):
    """An alert on a reason sees its first operation, not its second."""
    registry = make_registry(database_url)

    for queue in Queue:
        assert 0 == read(registry, "queue_oldest_waiting_seconds", queue=queue.value)
    for state in FINAL_STATES - {OperationState.SUCCEEDED}:
        for reason in Reason:
            labels = {"state": state.value, "reason": reason.value}
            assert 0 == read(registry, "operations_finished_last_hour", **labels)
    assert 0 == read(registry, "mails_uncertain")


def test_ends_are_counted_by_state_and_reason(engine: sa.Engine, database_url: str):
    """Words after the colon make no series; a failure counts when it happened."""
    for step in ("send_email", "run_task"):
        add(
            engine,
            state="failed",
            reason=f"step failed: {step}",
            recorded_at=db_now(-5 * HOUR),
            finished_at=db_now(-MINUTE),
        )
    add(engine, state="failed", reason="time limit", finished_at=db_now(-2 * HOUR))
    add(engine, state="canceled", reason="because I say so", finished_at=db_now())
    add(engine, state="succeeded", finished_at=db_now())
    registry = make_registry(database_url)

    found = {
        (state, reason): read(
            registry, "operations_finished_last_hour", state=state, reason=reason
        )
        for state, reason in (
            ("failed", "step failed"),
            ("failed", "time limit"),
            ("canceled", "other"),
            ("succeeded", ""),
        )
    }
    assert [2, 0, 1, 1] == list(found.values())


def test_start_lag_and_run_time_are_told_by_bounds(
    engine: sa.Engine, database_url: str
):
    """Each bound has all that were faster, as a histogram."""
    add(
        engine,
        state="succeeded",
        recorded_at=db_now(-10 * MINUTE),
        started_at=db_now(-10 * MINUTE + timedelta(seconds=2)),
        finished_at=db_now(-5 * MINUTE),
    )
    registry = make_registry(database_url)

    def list_counts(name: str) -> list[float | None]:
        return [
            read(registry, name, queue="quick", le=str(bound))
            for bound in (*BOUNDS, "+Inf")
        ]

    began, ended = map(list_counts, ("start_lag_last_hour", "run_time_last_hour"))
    assert [*(float(bound >= 2.5) for bound in BOUNDS), 1] == began
    assert [*(float(bound >= 300) for bound in BOUNDS), 1] == ended


@pytest.mark.parametrize(
    ("asked", "shop", "other"), [("shop", 2, 1), ("all", 2, 0), ("", None, None)]
)
def test_apps_have_series_where_asked(
    engine: sa.Engine,
    database_url: str,
    asked: str,
    shop: float | None,
    other: float | None,
):
    """Those that nobody asked for are added up."""
    for app, count in (("shop", 2), ("blog", 1)):
        add_app(engine, app)
        for _ in range(count):
            add(engine, app)
    add(engine, "shop", state="failed", reason="outage", finished_at=db_now())
    registry = make_registry(database_url, apps=asked)

    assert shop == read(registry, "app_queue_depth", app="shop", queue="quick")
    assert other == read(registry, "app_queue_depth", app="other", queue="quick")
    failed = read(registry, "app_troubles_last_hour", app="shop", state="failed")
    assert (None if shop is None else 1) == failed


def test_standby_gives_none(database_url: str):
    """The same from each scheduler would be added up."""
    registry = make_registry(database_url, leads=False)

    assert [] == list(registry.collect())


def test_who_asks_again_soon_is_told_the_same(
    engine: sa.Engine, database_url: str, clock: Clock
):
    """Any number of askers costs the database one look in ten seconds."""
    registry = make_registry(database_url, clock=clock)

    def count() -> float | None:
        return read(registry, "queue_depth", queue="quick", state="pending")

    before = count()
    add(engine)
    kept = count()
    clock.now += KEPT_S
    after = count()

    assert (0, 0, 1) == (before, kept, after)


def test_database_that_is_away_is_told_as_such():
    """Figures that nobody read are absent, not 0."""
    registry = make_registry("postgresql://x@127.0.0.1:1/x")

    assert 0 == read(registry, "work_read")
    assert read(registry, "mails_uncertain") is None


def test_names_are_known_without_a_look_at_the_database():
    """Prometheus' library asks for them when the process starts."""
    settings = make_settings(DATABASE_URL="postgresql://x@127.0.0.1:1/x")
    metrics = WorkMetrics(settings, leads=bool)

    assert set(METRICS_OF_WORK) == {each.name for each in metrics.describe()}
