"""The tick, which reads by index, finds all that the documents say."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from actions.occurrences import make_schedule, parse_timing
from actions.pausing.pause_and_resume import pause_action, resume_action
from actions.posting.revisions import start_from
from actions.user_events import _wake
from actions.when.event import event_due_at, event_occurrence
from actions.when.searching import find_occurrences
from models.door.documents import read_action_object
from models.fields.delay import Delay, join_delay
from models.occurrence import LOOKBACK, make_operation_id
from models.timing import make_timing, timing_text
from tests.database import write_by
from tests.scheduling import (
    MINUTE,
    MINUTELY,
    MONDAY,
    SECOND,
    add_app,
    add_event,
    edit_action,
    fetch_all,
    make_dispatcher,
    make_document,
    post,
    tick,
)


@pytest.fixture(autouse=True)
def _app(engine: sa.Engine) -> None:
    add_app(engine, ids=["ann", "bob", "eve"])


@dataclass
class Model:
    """What was done to an action, as its admin knows it."""

    uid: str
    document: dict[str, Any]
    created_at: datetime
    #: (since, document) of each schedule in force; None: nothing is recorded
    eras: list[tuple[datetime, dict[str, Any] | None]] = field(default_factory=list)


WHENS: list[Any] = [
    MINUTELY,
    {"cron_rule": "*/3 * * * *"},
    {"cron_rule": "30 2 * * *", "timezone": "Europe/Paris"},
    {"every": "PT7M"},
    {"calendar": "*-*-* *:0/5:30"},
    [{"cron_rule": "0 * * * *"}, {"every": "PT13M"}],
    {"on": "app.x"},
    {"after": "app.x", "delay": "PT10M"},
    {"after": "app.y", "delay": "P1M", "timezone": "Europe/Paris"},
    {"after": "app.x", "delay": "P1D", "timezone": "Europe/Paris"},
    {"after": "app.x", "delay": "PT5M", "at": "03:00", "timezone": "Europe/Paris"},
    {"on": "app.y", "at": "02:30", "timezone": "Europe/Paris"},
]


#: Around the midnight that the test begins before, from Saturday to Sunday.
MOVED: list[dict[str, Any]] = [
    {
        "when": {"cron_rule": "*/3 * * * 0"},
        "except": [{"weekdays": ["Sun"]}],
        "instead": "before",
    },
    {
        "when": {"cron_rule": "*/2 * * * 6"},
        "except": [{"weekdays": ["Sat"]}],
        "instead": "after",
    },
]
SCHEDULES = [*MOVED, *({"when": when, "except": [], "instead": None} for when in WHENS)]


@pytest.mark.parametrize("seed", range(4))
def test_tick_finds_what_brute_force_finds(engine: sa.Engine, seed: int):
    """Random posts, edits, pauses and events: the index misses nothing."""
    rng = random.Random(seed)
    start = datetime(2026, 3, 28, 23, 30, tzinfo=MONDAY.tzinfo)
    dispatcher = make_dispatcher(engine)
    models: list[Model] = []
    made_events: list[tuple[str, str, datetime, datetime]] = []
    now, ticked_at = start, [start]
    for _ in range(45):
        now += rng.choice([7 * SECOND, 31 * SECOND, MINUTE, 2 * MINUTE])
        choice = rng.random()
        if now - ticked_at[-1] > LOOKBACK - 2 * MINUTE:
            choice = 1.0  # what is older than the window is missed; not tested here
        if (choice < 0.25 or not models) and choice < 1:
            models.append(make_model(engine, rng, now, len(models)))
        elif choice < 0.4:
            change(engine, rng, rng.choice(models), now)
        elif choice < 0.65:
            made_events.append(make_event(engine, rng, now))
        else:
            ticked_at.append(now)
            tick(dispatcher, now)
    ticked_at.append(now)
    tick(dispatcher, now)

    expected = {
        operation_id
        for model in models
        for operation_id in find_expected(model, ticked_at, made_events)
    }
    found = {row.id for row in fetch_all(engine) if row.state != "missed"}
    assert expected == found


def make_model(
    engine: sa.Engine, rng: random.Random, now: datetime, number: int
) -> Model:
    document = make_document(name=f"action {number}", **rng.choice(SCHEDULES))
    if "timezone" not in str(document["when"]) and "app." not in str(document["when"]):
        document["jitter"] = rng.choice([None, None, "PT2M"])
    uid = post(engine, **document).uid
    model = Model(uid, document, now)
    settle(engine, model, now, document)
    return model


def change(engine: sa.Engine, rng: random.Random, model: Model, now: datetime) -> None:
    is_on = model.eras[-1][1] is not None
    kind = rng.choice(["edit", "touch", "pause"]) if is_on else "pause"
    if kind == "pause":
        write_by(engine, pause_action if is_on else resume_action, model.uid)
        settle(engine, model, now, None if is_on else model.document)
    elif kind == "touch":
        post(engine, replace_it=True, **{**model.document, "overlap": "allow"})
    else:
        others = [each for each in SCHEDULES if each["when"] != model.document["when"]]
        model.document = {**model.document, **rng.choice(others), "jitter": None}
        post(engine, replace_it=True, **model.document)
        settle(engine, model, now, model.document)


def settle(
    engine: sa.Engine, model: Model, now: datetime, document: dict[str, Any] | None
) -> None:
    """Make as if what was just done had been done at *now*."""
    if document is not None:
        # The clock of the database is not that of this test: redo what it derived.
        action = read_action_object(document)
        timing = make_timing(action, holidays={}, created_at=model.created_at)
        text = None if timing is None else timing_text(timing)
        schedule = None if text is None else parse_timing(text)
        values = start_from(model.uid, schedule, now, LOOKBACK, is_ticked=True)
        if text is not None:
            values["timing"] = text
        edit_action(engine, model.uid, created_at=model.created_at, **values)
    model.eras.append((now, document))


def make_event(
    engine: sa.Engine, rng: random.Random, now: datetime
) -> tuple[str, str, datetime, datetime]:
    name = rng.choice(["app.x", "app.x", "app.y"])
    user = rng.choice(["ann", "bob", "eve"])
    back = rng.choice([0, 90, 600, 27 * 86400, 28 * 86400 - 600, 31 * 86400])
    instant = now - timedelta(seconds=back + rng.randrange(60))
    add_event(engine, user, instant, recorded_at=now, name=name)
    write_by(engine, _wake, [{"app": "app", "name": name, "at": instant}], now)
    return name, user, instant, now


def find_expected(
    model: Model,
    ticked_at: list[datetime],
    made: list[tuple[str, str, datetime, datetime]],
) -> set[UUID]:
    """Return the ids of all that was to run, from the documents alone."""
    found: set[UUID] = set()
    for index, (since, document) in enumerate(model.eras):
        later = model.eras[index + 1][0] if index + 1 < len(model.eras) else None
        # what is decided in this era: by ticks before the next change
        last = max(
            (t for t in ticked_at if t >= since and (later is None or t < later)),
            default=None,
        )
        if document is None or last is None:
            continue
        action = read_action_object(document)
        timing = make_timing(action, holidays={}, created_at=model.created_at)
        if timing is not None:
            schedule = make_schedule(timing)
            found |= {
                make_operation_id(model.uid, each)
                for each in find_occurrences(schedule, since, last + SECOND)
                if schedule.due_at(each, model.uid) <= last
            }
            continue
        when: Any = action.when
        name = getattr(when, "on", None) or when.after
        delay = Delay.parse(join_delay(getattr(when, "delay", None), when.at))
        for event, user, instant, recorded_at in made:
            occurrence = event_occurrence(instant, delay, ZoneInfo(when.timezone))
            due_at = event_due_at(occurrence, recorded_at)
            late = recorded_at - occurrence > timedelta(days=1)
            if event == name and since <= due_at <= last and not late:
                found.add(make_operation_id(model.uid, occurrence, user))
    return found
