"""Buckets move between schedulers, and no decision is lost or made twice."""

from __future__ import annotations

from collections.abc import Mapping
from unittest.mock import patch

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

import tests.buckets.leases
from models.database.tables import leases
from tests.buckets.leases import BUCKETS, BucketLeases, find_preferred, make_take
from tests.buckets.world import CALM, BucketWorld, Troubles
from tests.simulation.invariants import InvariantError

NAMES = st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=9, unique=True)


def test_faults_lose_and_double_no_decision():
    """Whatever befalls schedulers, brokers and the database."""
    figures = BucketWorld(0).run()

    assert figures["moves"] > BUCKETS
    assert figures["occurrences"] > 0


def test_moves_alone_miss_nothing():
    """Schedulers that stop and begin, as in a deployment, leave no outage behind."""
    figures = BucketWorld(0, CALM).run()

    assert figures["moves"] > BUCKETS
    assert figures["ranges"] == 0


@given(NAMES)
def test_who_leaves_moves_only_its_own_buckets(names: list[str]):
    """All others stay where they are."""
    *others, gone = names
    for bucket in range(BUCKETS):
        before = find_preferred(bucket, names)

        assert before == gone or find_preferred(bucket, others) == before


def _check_nothing(
    _self: BucketLeases, _connection: sa.Connection, fences: Mapping[int, int]
) -> dict[int, int]:
    return dict(fences)


def _returning(take: sa.Update) -> sa.Executable:
    return take.returning(leases.c.fence)


@pytest.mark.parametrize(
    ("target", "name", "mistake"),
    [
        (BucketLeases, "check", _check_nothing),
        (tests.buckets.leases, "TAKE", _returning(make_take(is_free=sa.true()))),
        (tests.buckets.leases, "TAKE", _returning(make_take(by=0))),
    ],
    ids=["no fence is checked", "taken while it holds", "the fence is not raised"],
)
def test_a_planted_mistake_is_found(target: object, name: str, mistake: object):
    """The judge would have noticed."""
    with patch.object(target, name, mistake), pytest.raises(InvariantError):
        _run_some()


def _run_some() -> None:
    for seed in range(12):
        BucketWorld(seed, Troubles(freeze=40)).run()
