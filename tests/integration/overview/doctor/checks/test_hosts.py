"""What doctor finds at the hosts of processes that gave a sign of life."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from models.database.tables import processes
from operations.fleet.processes import Process
from overview.doctor.checks import hosts
from overview.doctor.thresholds import LITTLE_SPACE, NO_SPACE
from tests.database import execute
from tests.presence import give_sign, make_worker
from tests.scheduling import MINUTE, examine

WORKER = make_worker("b")
ELSEWHERE = {**WORKER.settings, "MINUTEHAND_BROKER_URL": "redis://other:6379/0"}


@pytest.mark.parametrize(
    ("name", "other", "sign", "told"),
    [
        (
            "settings",
            make_worker("b", settings=ELSEWHERE),
            {},
            r"MINUTEHAND_BROKER_URL differs: .*redis://other:6379/0 \(celery@b\)",
        ),
        ("programs", make_worker("b", revision="0000"), {}, "celery@b .* schema 0000"),
        (
            "programs",
            WORKER,
            {"age": 3 * MINUTE},
            "celery@b .* 3 min.* ago: .* cannot reach the database or its broker",
        ),
        (
            "clock",
            WORKER,
            {"clock_ahead": timedelta(seconds=90)},
            r"host b differs from the database by \+",
        ),
    ],
    ids=["settings", "version", "killed", "clock"],
)
def test_worker_that_is_unlike_the_others_is_named(
    postgres_engine: sa.Engine,
    name: str,
    other: Process,
    sign: dict[str, Any],
    told: str,
):
    """Its settings, the schema it knows, its silence, the clock of its host."""
    give_sign(postgres_engine, make_worker("a"))
    give_sign(postgres_engine, other, **sign)

    (found,) = [e for e in examine(postgres_engine, name) if e.health != "ok"]

    assert "look" == found.health
    assert re.match(told, found.detail.removeprefix("worker ")), found.detail


@pytest.mark.parametrize(
    ("ahead_s", "titles"),
    [
        ((90, 90), ["the database's clock is wrong"]),
        (
            (90,),
            [
                "a clock is wrong, this host's or the database's",
                "a host's clock is wrong",
            ],
        ),
        ((90, 0), ["this host's clock is wrong", "a host's clock is wrong"]),
    ],
    ids=["all", "one host", "one of two"],
)
def test_clock_from_which_all_others_differ_is_the_wrong_one(
    postgres_engine: sa.Engine,
    monkeypatch: pytest.MonkeyPatch,
    ahead_s: Sequence[float],
    titles: list[str],
):
    """
    So is this host's if others agree with the database's. With but one other, nobody
    can tell which of both it is.
    """
    skew = None, timedelta(seconds=90)
    monkeypatch.setattr(hosts, "compare_clocks", lambda _connection: skew)
    for number, each in enumerate(ahead_s):
        worker = make_worker(f"host{number}")
        give_sign(postgres_engine, worker, clock_ahead=timedelta(seconds=each))

    found = [each for each in examine(postgres_engine, "clock") if each.health != "ok"]

    assert titles == [each.title for each in found]


def test_killed_worker_is_told_until_another_has_its_place(postgres_engine: sa.Engine):
    """By name, so that one that was restarted is no news."""
    give_sign(postgres_engine, make_worker("a"), age=3 * MINUTE)
    give_sign(postgres_engine, make_worker("a"))

    assert [] == examine(postgres_engine, "programs")


def test_program_as_new_as_the_database_is_right(
    postgres_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """The others are behind, also where the one that looks is among them."""
    give_sign(postgres_engine, make_worker("new", revision="9999"))
    give_sign(postgres_engine, make_worker("old"))
    monkeypatch.setattr(hosts, "fetch_revision", lambda _connection: "9999")

    (found,) = examine(postgres_engine, "programs")

    assert "celery@old" in found.detail
    assert "the database is at 9999. Restart it with the newer ver" in found.detail


def test_killed_worker_that_was_replaced_is_not_told(postgres_engine: sa.Engine):
    """Also while the one that took its place is silent itself."""
    engine = postgres_engine
    for pid, minutes in ((1, 10), (2, 3)):
        give_sign(engine, make_worker("b", pid=pid), age=minutes * MINUTE)
    began = processes.c.heartbeat_at - MINUTE
    execute(engine, sa.update(processes).values(started_at=began))

    (found,) = examine(engine, "programs")

    assert "celery@b (pid 2)" in found.detail


@pytest.mark.parametrize(
    ("free", "health"),
    [(LITTLE_SPACE, "ok"), (LITTLE_SPACE - 1, "look"), (NO_SPACE - 1, "bad")],
)
def test_least_space_of_any_worker_is_told(
    postgres_engine: sa.Engine, free: int, health: str
):
    """Also of one whose workspace is another one, although it is on the same host."""
    give_sign(postgres_engine, make_worker("full", name="a@full", free_bytes=free))
    give_sign(postgres_engine, make_worker("full", name="b@full"))
    give_sign(postgres_engine, make_worker("roomy"))

    (found,) = examine(postgres_engine, "space")

    assert (health, True) == (found.health, "(full)" in found.detail)


def test_host_that_confines_no_children_is_told(
    postgres_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """With what would help; what is asked is the kernel, which has no fake."""
    monkeypatch.setattr(hosts, "find_version", lambda: -1)

    (found,) = examine(postgres_engine, "confinement")

    assert "look" == found.health
    assert "a profile that allows landlock_*" in found.detail
