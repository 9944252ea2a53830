"""Pauses of small apps and of all of the installation, and pauses that have an end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from actions.explaining.history import fetch_history
from actions.explaining.why import Verdict, explain
from actions.lease import Leader
from actions.lookup import find_action
from actions.own_actions import MAINTENANCE_UID, ensure_maintenance
from actions.pausing.pause_and_resume import pause_action, resume_action
from actions.pausing.pause_state import (
    APP,
    INSTALLATION,
    OPERATOR,
    fetch_pauses,
    get_pause,
    hold_pause,
)
from actions.pausing.targets import pause_target, resume_target, spread_part
from actions.read_rules import find_next
from dispatch.due_pauses import end_due_pauses, end_pauses, has_ended_pause
from dispatch.locked_rows import LockedRows
from dispatch.upkeep import do_all
from models.database.engine import Author, reading, writing
from models.database.tables import (
    scheduled_action_revisions,
    scheduled_actions,
    small_apps,
)
from models.errors import ConflictError, NotFoundError, UsageError
from models.requests.notes import PauseModel
from settings import Settings
from tests.database import execute, fetch_rows, read_by, wait_for_lock
from tests.integration.test_budget import counting
from tests.scheduling import (
    HOUR,
    MINUTE,
    add_app,
    copy_action,
    edit_action,
    fetch_action,
    fetch_all,
    get_now,
    make_dispatcher,
    post,
    tick,
)

HOURLY = {"cron_rule": "0 * * * *"}


@pytest.fixture(autouse=True)
def _app(any_engine: sa.Engine) -> None:
    for app in ("app", "other"):
        add_app(any_engine, app, ids=["ann"])
        post(any_engine, app, uid=f"{app}-1", name="one", when=HOURLY)


def call(
    engine: sa.Engine, function: Any, *arguments: Any, by: str | None = None, **how: Any
) -> Any:
    """Call *function* in a transaction of its own, in which *by* asks for it."""
    author = None if by is None else Author(by)
    with writing(engine, author=author) as connection:
        return function(connection, *arguments, **how)


def scopes(engine: sa.Engine) -> dict[str, str | None]:
    """Return whose pause each action has that is paused; "own" its own."""
    kept = scheduled_actions.c
    query = sa.select(kept.uid, kept.pause_scope).where(kept.paused_at.is_not(None))
    rows = fetch_rows(engine, query.order_by(kept.uid))
    return {row.uid: row.pause_scope or "own" for row in rows}


def fetch_revisions(engine: sa.Engine, uid: str) -> list[sa.Row[Any]]:
    kept = scheduled_action_revisions
    query = sa.select(kept).where(kept.c.uid == uid).order_by(kept.c.revision)
    return [*fetch_rows(engine, query)]


def next_hour(engine: sa.Engine) -> datetime:
    """Return the first full hour that is at least a minute away."""
    later = get_now(engine) + MINUTE + HOUR
    return later.replace(minute=0, second=0, microsecond=0)


def test_pause_of_an_app_reaches_its_actions_alone(engine: sa.Engine):
    """Each says since when, until when, by whom and why, and whose pause it is."""
    until = get_now(engine) + HOUR

    count = call(
        engine, pause_target, "app", PauseModel(until=until, note="deploy"), by="ada"
    ).actions

    assert 1 == count
    assert {"app-1": APP} == scopes(engine)
    pause = get_pause(fetch_action(engine, "app-1"))
    assert pause is not None
    assert (until, "ada", "deploy") == (pause.until, pause.by, pause.note)
    revision = fetch_revisions(engine, "app-1")[-1]
    assert ("paused", "ada") == (revision.change, revision.changed_by)
    assert revision.note.startswith("with its app; until ")
    whole, apps, actions = read_by(engine, fetch_pauses)
    assert (None, ["app"], 1) == (whole, list(apps), actions)


def test_revisions_do_not_name_who_paused_all(engine: sa.Engine):
    """Tenants read them, also of what is posted meanwhile."""
    call(engine, pause_target, None, by="root@host")
    post(engine, uid="new", name="new", when=HOURLY)
    call(engine, resume_target, None, by="root@host")

    changes = {
        (each.change, each.changed_by)
        for uid in ("app-1", "new")
        for each in fetch_revisions(engine, uid)[1:]
    }
    assert {("paused", OPERATOR), ("resumed", OPERATOR)} == changes


def test_what_is_posted_meanwhile_is_paused_too(engine: sa.Engine):
    """Its pause is that of the app, and ends with it; no document resumes anything."""
    call(engine, pause_target, "app", PauseModel(note="deploy"), by="ada")

    posted = post(engine, uid="new", name="new", when=HOURLY)
    post(engine, "other", uid="free", name="free", when=HOURLY)
    post(engine, uid="app-1", name="one", replace_it=True, when={"every": "PT2H"})

    assert 2 == posted.revision == fetch_action(engine, "new").revision
    assert {"app-1": APP, "new": APP} == scopes(engine)
    assert ["posted", "paused"] == [r.change for r in fetch_revisions(engine, "new")]
    assert 2 == call(engine, resume_target, "app").actions
    assert {} == scopes(engine)


def test_resuming_an_app_leaves_what_is_paused_on_its_own(engine: sa.Engine):
    """Also what was paused on its own while the app was."""
    post(engine, uid="app-2", name="two", when=HOURLY)
    post(engine, uid="app-3", name="three", when=HOURLY)
    call(engine, pause_action, "app-1")
    call(engine, pause_target, "app")
    call(engine, pause_action, "app-2")

    resumed = call(engine, resume_target, "app").actions

    assert 1 == resumed
    assert {"app-1": "own", "app-2": "own"} == scopes(engine)


def test_action_alone_is_not_resumed_out_of_its_app(engine: sa.Engine):
    """It says what to resume; what was paused on its own stays paused with its app."""
    call(engine, pause_target, "app")

    with pytest.raises(ConflictError, match="minutehand apps resume app"):
        call(engine, resume_action, "app-1")
    call(engine, pause_action, "app-1", PauseModel(note="mine"))
    assert {"app-1": "own"} == scopes(engine)
    assert call(engine, resume_action, "app-1")

    assert {"app-1": APP} == scopes(engine)


def test_pause_of_all_leaves_the_maintenance_and_the_pauses_of_apps(engine: sa.Engine):
    """Resuming all brings back what was paused with it, and nothing else."""
    ensure_maintenance(engine, Settings.model_construct())
    call(engine, pause_target, "app")

    assert 1 == call(engine, pause_target, None, PauseModel(note="move")).actions

    assert {"app-1": APP, "other-1": INSTALLATION} == scopes(engine)
    assert fetch_action(engine, MAINTENANCE_UID).paused_at is None
    post(engine, "other", uid="new", name="new", when=HOURLY)
    assert INSTALLATION == scopes(engine)["new"]
    with pytest.raises(ConflictError, match="apps resume --all"):
        call(engine, resume_action, "other-1")
    with pytest.raises(ConflictError, match="apps resume --all"):
        call(engine, resume_target, "other")
    assert 1 == call(engine, resume_target, "app").actions
    assert INSTALLATION == scopes(engine)["app-1"]
    assert 3 == call(engine, resume_target, None).actions
    assert {} == scopes(engine)


def test_resuming_counts_from_now(engine: sa.Engine):
    """What came due meanwhile does not run, whatever catch_up says."""
    edit_action(engine, "app-1", next_due_at=get_now(engine) - 3 * HOUR, catch_up="all")
    call(engine, pause_target, "app")
    before = get_now(engine)

    call(engine, resume_target, "app")
    row = fetch_action(engine, "app-1")
    tick(make_dispatcher(engine), row.effective_from)

    assert [] == [row for row in fetch_all(engine) if row.action_uid == "app-1"]
    assert row.effective_from >= before
    assert row.next_due_at > before


def test_what_cannot_be_read_any_more_goes_into_quarantine(engine: sa.Engine):
    """One of many must not keep the others paused; its admin sees why."""
    post(engine, uid="app-2", name="two", when=HOURLY)
    call(engine, pause_target, "app")
    edit_action(engine, "app-2", timing='{"when": "?"}')

    call(engine, resume_target, "app")

    assert {} == scopes(engine)
    assert fetch_action(engine, "app-1").quarantined_at is None
    broken = fetch_action(engine, "app-2")
    assert broken.quarantined_at is not None
    assert broken.quarantine_reason


@pytest.mark.parametrize(
    ("pause", "whose", "count"),
    [(pause_action, "app-1", 1), (pause_target, "app", 1), (pause_target, None, 2)],
    ids=["action", "app", "installation"],
)
def test_pause_with_an_end_ends_by_itself(
    engine: sa.Engine, pause: Any, whose: str | None, count: int
):
    """At that very instant, however late the tick: what is due then is in effect."""
    until = next_hour(engine)
    call(engine, pause, whose, PauseModel(until=until))
    with reading(engine) as connection:
        row = find_action(connection, "app-1")
        assert not has_ended_pause(connection, now=until - MINUTE)
        assert has_ended_pause(connection, now=until)
    assert [until, until + HOUR] == find_next(row, count=2)

    ended = call(engine, end_pauses, now=until + 3 * MINUTE)

    assert count == ended
    assert {} == scopes(engine)
    row = fetch_action(engine, "app-1")
    assert (until, until) == (row.effective_from, row.next_due_at)
    last = fetch_revisions(engine, "app-1")[-1]
    resumed = last.change, last.changed_by, last.recorded_at
    assert ("resumed", "scheduler", until) == resumed
    assert not read_by(engine, has_ended_pause, now=until + 3 * MINUTE)
    assert (None, {}, 0) == read_by(engine, fetch_pauses)
    tick(make_dispatcher(engine), until + 3 * MINUTE)
    assert [until] == [
        row.occurrence for row in fetch_all(engine) if row.action_uid == "app-1"
    ]


def test_own_pause_that_ends_goes_on_with_that_of_the_app(engine: sa.Engine):
    """And that of the app with that of the installation."""
    until = next_hour(engine)
    call(engine, pause_target, None)
    call(engine, pause_target, "app", PauseModel(until=until + HOUR))
    call(engine, pause_action, "app-1", PauseModel(until=until))

    call(engine, end_pauses, now=until)
    assert APP == scopes(engine)["app-1"]
    call(engine, end_pauses, now=until + HOUR)
    assert INSTALLATION == scopes(engine)["app-1"]


def test_pause_that_is_given_again_has_the_new_end(engine: sa.Engine):
    until = get_now(engine) + HOUR
    assert call(engine, pause_action, "app-1", PauseModel(until=until, note="a"))
    since = fetch_action(engine, "app-1").paused_at

    assert not call(engine, pause_action, "app-1")
    assert call(engine, pause_action, "app-1", PauseModel(note="b"))
    call(engine, pause_target, "other", PauseModel(until=until, note="x"))
    call(engine, pause_target, "other", PauseModel(note="y"))

    row = fetch_action(engine, "app-1")
    assert (since, None, "b") == (row.paused_at, row.paused_until, row.pause_note)
    assert "y" == fetch_action(engine, "other-1").pause_note
    assert fetch_action(engine, "other-1").paused_until is None


@pytest.mark.parametrize(
    ("function", "whose", "error", "told"),
    [
        (pause_action, "app-1", UsageError, "has passed"),
        (pause_target, "app", UsageError, "has passed"),
        (pause_target, None, UsageError, "has passed"),
        (pause_target, "typo", NotFoundError, "typo"),
        (resume_target, "typo", NotFoundError, "typo"),
        (resume_target, "app", ConflictError, "not paused"),
        (resume_target, None, ConflictError, "not paused"),
    ],
)
def test_what_means_nothing_is_refused(
    engine: sa.Engine,
    function: Any,
    whose: str | None,
    error: type[Exception],
    told: str,
):
    """It would be over before it began; there is no such app, or it is not paused."""
    passed = PauseModel(until=get_now(engine) - MINUTE)
    asked = [passed] if error is UsageError else []

    with pytest.raises(error, match=told):
        call(engine, function, whose, *asked)

    assert {} == scopes(engine)


def test_why_names_who_paused_and_until_when(engine: sa.Engine):
    """
    After the end of a pause it says what is due, though no tick has seen the end; an
    end that leads into another pause is none.
    """
    moment = next_hour(engine)
    until = moment + HOUR
    whole = PauseModel(until=until, note="deploy")
    call(engine, pause_target, "app", whole, by="ada@host")
    history = read_by(engine, fetch_history, "app-1", since=moment, until=until + HOUR)
    call(engine, pause_target, "app")
    call(engine, pause_action, "app-1", PauseModel(until=moment))
    own = read_by(engine, fetch_history, "app-1", since=moment, until=until)

    (paused,) = explain(history, moment)
    assert Verdict.PAUSED is paused.verdict
    for word in ("by ada@host", "deploy", "with its app", "never run"):
        assert word in paused.text
    assert Verdict.WILL_RUN is explain(history, until)[0].verdict
    assert Verdict.PAUSED is explain(own, moment)[0].verdict


@pytest.fixture
def large(postgres_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> sa.Engine:
    """Let the small app "app" have 51 actions, of which 20 are changed at once."""
    for each in ("actions.pausing.targets.WRITTEN", "dispatch.due_pauses.ENDED"):
        monkeypatch.setattr(f"{each}_AT_ONCE", 20)
    copy_action(postgres_engine, "app-1", 50, prefix="many")
    return postgres_engine


def spread(engine: sa.Engine) -> None:
    """Do what the leader does between ticks."""
    while call(engine, spread_part):
        pass


@pytest.mark.parametrize("app", ["app", None])
def test_many_are_paused_and_resumed_in_parts(large: sa.Engine, app: str | None):
    """
    Whoever asks does the first; all of them have a revision of that instant, by whom it
    was, and nothing runs meanwhile.
    """
    engine = large
    count = 51 if app else 52

    assert count == call(engine, pause_target, app, by="ada").actions
    assert 20 == len(scopes(engine))
    tick(make_dispatcher(engine), next_hour(engine) + HOUR)
    assert ({"other"} if app else set()) == {row.app for row in fetch_all(engine)}
    spread(engine)
    assert count == len(scopes(engine))
    resumed = call(engine, resume_target, app, by="bob")
    assert (count, 0) == (resumed.actions, resumed.still_paused)
    assert count - 20 == len(scopes(engine))
    spread(engine)

    kept = scheduled_action_revisions.c
    counts = fetch_rows(
        engine, sa.select(kept.change, sa.func.count()).group_by(kept.change)
    ).all()
    assert {("paused", count), ("resumed", count)} <= {tuple(row) for row in counts}
    assert {} == scopes(engine)


def test_pause_that_is_still_to_be_written_goes_by_whose_it_is(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """Its row says so: other versions keep it without, and read it all the same."""
    monkeypatch.setattr("actions.pausing.targets.WRITTEN_AT_ONCE", 1)
    call(engine, pause_target, "app", PauseModel(note="deploy"), by="ada")

    query = sa.select(small_apps.c.spread).where(small_apps.c.uid == "app")
    stored = fetch_rows(engine, query).scalar_one()
    pause = stored["changes"][0]["pause"]
    assert {"at", "until", "by", "note"} == pause.keys()
    spread(engine)
    assert {"app-1": APP} == scopes(engine)


def test_what_is_left_is_written_before_another_change(large: sa.Engine):
    """
    Nobody waits for it: the leader goes on in parts, and until a pause is in all of its
    actions nothing runs. What was not paused yet goes on from when it is resumed.
    """
    engine = large
    call(engine, pause_target, "app", by="ada")

    assert 51 == call(engine, resume_target, "app", by="bob").actions
    with pytest.raises(ConflictError, match="not paused"):
        call(engine, resume_target, "app")
    tick(make_dispatcher(engine), next_hour(engine) + HOUR)
    assert {"other"} == {row.app for row in fetch_all(engine)}
    assert 51 == call(engine, pause_target, "app", by="cem").actions
    assert 20 == len(scopes(engine))
    spread(engine)

    assert 51 == len(scopes(engine))
    revisions = fetch_revisions(engine, "many00049")
    assert [("paused", "ada"), ("resumed", "bob"), ("paused", "cem")] == [
        (each.change, each.changed_by) for each in revisions
    ]


def test_pauses_end_beside_whoever_relies_on_two(postgres_engine: sa.Engine):
    """All lock apps before the installation, so that nobody waits in a circle."""
    engine = postgres_engine
    until = next_hour(engine)
    call(engine, pause_target, "app", PauseModel(until=until))
    with ThreadPoolExecutor() as pool, writing(engine) as connection:
        hold_pause(connection, "app")
        ended = pool.submit(call, engine, end_pauses, now=until + MINUTE)
        wait_for_lock(engine)
        assert hold_pause(connection, "other") is None
        connection.commit()
        assert ended.result() > 0


def test_pause_that_ends_before_it_is_written(large: sa.Engine):
    """It is written first, and ends where it was to end."""
    engine = large
    until = next_hour(engine)
    call(engine, pause_target, "app", PauseModel(until=until))
    leader = Leader(engine)
    assert leader.hold()

    do_all(partial(end_due_pauses, engine, leader, LockedRows(), now=until + MINUTE))

    assert {} == scopes(engine)
    row = fetch_action(engine, "many00049")
    assert (until, until) == (row.effective_from, row.updated_at)
    assert not read_by(engine, has_ended_pause, now=until + MINUTE)


@pytest.mark.parametrize("level", ["action", "app", "installation"])
def test_many_pauses_end_in_parts(large: sa.Engine, level: str):
    """Each in few statements; the app goes on with the last of its actions."""
    engine = large
    until = next_hour(engine)
    paused = 51
    if level == "action":
        execute(
            engine,
            sa.update(scheduled_actions)
            .where(scheduled_actions.c.app == "app")
            .values(paused_at=until - HOUR, paused_until=until),
        )
    elif level == "app":
        call(engine, pause_target, "app", PauseModel(until=until))
    else:
        paused = call(engine, pause_target, None, PauseModel(until=until)).actions
    spread(engine)

    ended, costs, above = [], [], []
    for _ in range(4):
        with counting(engine) as counts:
            ended.append(call(engine, end_pauses, now=until + MINUTE))
        costs.append(counts.statements)
        whole, apps, _actions = read_by(engine, fetch_pauses)
        above.append(bool(whole or apps))

    assert [20, 20, paused - 40, 0] == ended
    assert max(costs) <= 10
    assert [*[level != "action"] * 2, False, False] == above
    assert {} == scopes(engine)
    assert until == fetch_action(engine, "many00049").effective_from
    assert (None, {}, 0) == read_by(engine, fetch_pauses)
