"""What steps say is kept with the operation, within bounds, and at little cost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from celery_app.tasks import execute
from models.database.engine import reading, writing
from models.database.tables import operation_log, operations
from models.errors import NotFoundError, PostponedError, StepError
from operations.cancel_and_retry import cancel_or_refuse
from operations.claiming.heart import Heart, Worker
from operations.operation_log import (
    FIRST_KEPT,
    LAST_KEPT,
    LONGEST,
    LogLevel,
    LogLine,
    fetch_log,
    fetch_log_page,
)
from operations.ports import Ports, StepContext, StepResult
from operations.rescue import reclaim_lost_workers
from tests.database import fetch_rows, read_by, write_by
from tests.scheduling import (
    SECOND,
    add_runs,
    edit,
    expire,
    get_now,
    make_operation,
    run_attempt,
)
from tests.unit.operations.fakes import World

DAILY = make_operation()


@pytest.fixture
def recorded(engine: sa.Engine) -> sa.Engine:
    """Give a database with an operation of one step."""
    add_runs(engine, DAILY)
    return engine


Step = Callable[[StepContext], None]


def run(engine: sa.Engine, ports: Ports, step: Step) -> None:
    """Make an attempt at DAILY whose step is *step*."""

    def act(context: StepContext, _arguments: object) -> StepResult:
        step(context)
        return {}

    edit(engine, DAILY.id, send_at=get_now(engine) - SECOND)
    run_attempt(engine, DAILY.id, ports, steps={"run_task": act})


def read(engine: sa.Engine, *, after: int = 0, limit: int = 1_000) -> list[LogLine]:
    return read_by(engine, fetch_log, DAILY.id, after=after, limit=limit)


def read_texts(engine: sa.Engine, **which: int) -> list[str]:
    return [line.text for line in read(engine, **which)]


def test_lines_are_kept_in_order(recorded: sa.Engine, ports: Ports):
    """
    With number, step, attempt, level and time, by the database's clock. They are
    written with the progress of the step, while it runs.
    """
    before = get_now(recorded)
    seen: list[str] = []

    def speak(context: StepContext) -> None:
        context.say("one")
        context.progress(0, 2)
        seen.extend(read_texts(recorded))
        context.say("two", level=LogLevel.WARNING)

    run(recorded, ports, speak)

    first, second = read(recorded)
    assert (1, "one", LogLevel.INFO) == (first.number, first.text, first.level)
    assert (2, "two", LogLevel.WARNING) == (second.number, second.text, second.level)
    assert {("run_task", 1)} == {(each.step, each.attempt) for each in (first, second)}
    assert before <= first.at <= second.at <= get_now(recorded)
    assert ["one"] == seen


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ([], []),
        ([("one", LogLevel.INFO)], []),
        ([("one", LogLevel.WARNING)], ["one"]),
        ([("one", LogLevel.INFO), ("two", LogLevel.INFO)], ["one", "two"]),
    ],
)
def test_one_line_of_a_step_that_succeeded_at_once_is_in_its_result(
    recorded: sa.Engine,
    ports: Ports,
    lines: list[tuple[str, LogLevel]],
    kept: list[str],
):
    """So it is not kept: writing it would cost as much as all the rest."""

    def speak(context: StepContext) -> None:
        for text, level in lines:
            context.say(text, level=level)

    run(recorded, ports, speak)

    assert kept == read_texts(recorded)


def raise_(error: Exception) -> Step:
    """Return a step that says something and raises *error*."""

    def step(context: StepContext) -> None:
        context.say("begun")
        raise error

    return step


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StepError("no network", permanent=False), (LogLevel.ERROR, "no network")),
        (StepError("no template", permanent=True), (LogLevel.ERROR, "no template")),
        (
            PostponedError("it hangs", delay=timedelta(seconds=90), reason="r"),
            (LogLevel.WARNING, "postponed for 90 s: it hangs"),
        ),
    ],
)
def test_what_went_wrong_is_in_the_log(
    recorded: sa.Engine, ports: Ports, error: Exception, told: tuple[LogLevel, str]
):
    """After what the step had said."""
    run(recorded, ports, raise_(error))

    assert [(LogLevel.INFO, "begun"), told] == [
        (line.level, line.text) for line in read(recorded)
    ]


def test_numbers_go_on_in_the_next_attempt(recorded: sa.Engine, ports: Ports):
    """Each line says which attempt said it."""
    run(recorded, ports, raise_(StepError("no network", permanent=False)))
    run(recorded, ports, raise_(StepError("no network", permanent=False)))

    assert [(1, 1), (2, 1), (3, 2), (4, 2)] == [
        (line.number, line.attempt) for line in read(recorded)
    ]


def test_crash_leaves_its_trace(recorded: sa.Engine, tmp_path: Path):
    """Where in our own code it happened, in one bounded line."""
    world = World(tmp_path)
    world.tasks.send = None  # type: ignore[assignment]  # a bug, as nobody expects it
    heart = Heart(recorded, lease=SECOND * 60, every=SECOND * 60)
    worker = Worker(recorded, world.make_context().ports, heart)

    execute(worker, str(DAILY.id), "celery@host")
    heart.stop()

    (line,) = read(recorded)
    assert LogLevel.ERROR is line.level
    assert line.text.startswith("TypeError: 'NoneType' object is not callable\n")
    assert "operations/steps/run_task.py:" in line.text
    assert line.text.splitlines()[-1].endswith(" in run_task")


@pytest.mark.parametrize("progress_every", [100, 2_000])
def test_first_and_last_lines_are_kept(
    recorded: sa.Engine, ports: Ports, progress_every: int
):
    """The gap in the numbers says how many were dropped in between."""
    count = 1_234

    def speak(context: StepContext) -> None:
        for number in range(1, count + 1):
            context.say(str(number))
            if number % progress_every == 0:
                context.progress(1, 1)

    run(recorded, ports, speak)

    lines = read(recorded)
    first = list(range(1, FIRST_KEPT + 1))
    last = list(range(count - LAST_KEPT + 1, count + 1))
    assert [*first, *last] == [line.number for line in lines]
    assert [str(line.number) for line in lines] == [line.text for line in lines]


def test_whatever_is_said_can_be_kept(recorded: sa.Engine, ports: Ports):
    """A long text is cut; what a database refuses is replaced."""

    def speak(context: StepContext) -> None:
        context.say("x" * 5_000)
        context.say("a\0b")
        context.say("ok\udce9 \U0001f600")

    run(recorded, ports, speak)

    long, nul, surrogate = read_texts(recorded)
    assert (LONGEST, " … (cut)") == (len(long), long[-8:])
    assert "a\N{REPLACEMENT CHARACTER}b" == nul
    assert "ok\ufffd \U0001f600" == surrogate


def test_worker_that_lost_its_claim_says_nothing(recorded: sa.Engine, ports: Ports):
    """What it would have said is not what happened."""

    def lose(context: StepContext) -> None:
        context.say("one")
        context.say("two")
        expire(recorded, DAILY.id)
        write_by(recorded, reclaim_lost_workers)

    run(recorded, ports, lose)

    assert [] == read_texts(recorded)


def test_canceled_worker_says_where_it_stopped(recorded: sa.Engine, ports: Ports):
    """After the cancellation, in the transaction that ends its claim."""

    def be_canceled(context: StepContext) -> None:
        context.say("one")
        write_by(recorded, cancel_or_refuse, DAILY.id)
        context.progress(0, 1)

    run(recorded, ports, be_canceled)

    assert ["one", "canceled; stopped here"] == read_texts(recorded)


def test_log_goes_with_its_operation(recorded: sa.Engine, ports: Ports):
    """What removes the operation removes its log."""
    run(recorded, ports, raise_(StepError("no network", permanent=True)))

    with writing(recorded) as connection:
        connection.execute(sa.delete(operations))

    assert [] == fetch_rows(recorded, sa.select(operation_log)).all()


def test_log_is_read_in_parts(recorded: sa.Engine, ports: Ports):
    """After a number, or page by page."""

    def speak(context: StepContext) -> None:
        for number in range(1, 6):
            context.say(str(number))

    run(recorded, ports, speak)

    assert ["4", "5"] == read_texts(recorded, after=3)
    assert ["2", "3"] == read_texts(recorded, after=1, limit=2)
    with reading(recorded) as connection:
        first = fetch_log_page(connection, DAILY.id, after=0, limit=3)
        second = fetch_log_page(connection, DAILY.id, after=3, limit=3)
        third = fetch_log_page(connection, DAILY.id, after=5, limit=3)
    assert ["1", "2", "3"] == [line.text for line in first.items]
    assert ["4", "5"] == [line.text for line in second.items]
    pages = (first, second, third)
    assert [3, 5, 5] == [page.next_after for page in pages]
    assert [False, True, True] == [page.is_final for page in pages]


def test_log_of_another_app_is_unknown(recorded: sa.Engine):
    """As if there were no such operation."""
    with reading(recorded) as connection:
        assert [] == fetch_log(connection, DAILY.id, app="app")
        with pytest.raises(NotFoundError, match="there is no operation"):
            fetch_log(connection, DAILY.id, app="other")
