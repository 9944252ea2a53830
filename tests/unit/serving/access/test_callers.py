"""The order of the roles."""

from __future__ import annotations

from itertools import pairwise

import pytest

from models.errors import ForbiddenError
from models.role import Role
from serving.access.callers import Caller


def test_roles_grow_from_viewer_to_admin():
    """The order is that of what they may do, not that of the alphabet."""
    shuffled = [Role.EDITOR, Role.ADMIN, Role.VIEWER, Role.OPERATOR]

    assert ["viewer", "operator", "editor", "admin"] == sorted(shuffled)


@pytest.mark.parametrize(("less", "more"), list(pairwise(Role)))
def test_each_comparison_agrees_with_the_order(less: Role, more: Role):
    """No comparison is left to that of text."""
    assert less < more
    assert less <= more
    assert not less > more
    assert not less >= more
    assert more > less
    assert more >= less
    assert less >= less  # noqa: PLR0124 - what is tested
    assert less <= less  # noqa: PLR0124 - what is tested


@pytest.mark.parametrize("role", Role)
def test_callers_may_do_what_their_role_and_those_below_may(role: Role):
    """A route names the least role that it needs."""
    caller = Caller("k", "nightly", role, None)
    refused = []
    for needed in Role:
        try:
            caller.demand(needed)
        except ForbiddenError:
            refused.append(needed)

    assert [each for each in Role if each.rank > role.rank] == refused


def test_refusal_names_both_roles():
    with pytest.raises(ForbiddenError, match=r"role editor, and nightly has .* viewer"):
        Caller("k", "nightly", Role.VIEWER, None).demand(Role.EDITOR)


def test_repeats_and_limits_belong_to_a_key_or_a_person():
    """
    No two of them share an owner, whatever they are called or are invited by; whoever
    was given a link to one small app is called as the operator who made it.
    """
    owners = {
        Caller("x", "x", Role.VIEWER, None).owner,
        Caller("x", "x", Role.VIEWER, None, session="x").owner,
        Caller("x", "y (invited by x)", Role.VIEWER, "shop", session="y").owner,
        Caller(None, "x", Role.VIEWER, None, session="x").owner,
        Caller(None, "x", Role.VIEWER, "shop", session="x").owner,
    }

    assert 5 == len(owners)


@pytest.mark.parametrize("key_id", ["x", None])
def test_whoever_signs_in_twice_has_one_limit(key_id: str | None):
    """Else each more session would let a key, or a person, ask as often again."""
    first, second = (
        Caller(key_id, "x", Role.VIEWER, None, session=each).owner for each in "ab"
    )

    assert first == second
