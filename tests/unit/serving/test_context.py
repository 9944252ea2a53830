"""Whoever asks is told of a deadlock only if it comes again and again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
import sqlalchemy as sa

from models.errors import DeadlockError
from models.role import Role
from serving.access.callers import Caller
from serving.context import Context

ADA = Caller("k", "ada", Role.OPERATOR, "app")


class FakeServices:
    """Begins transactions that do nothing."""

    @contextmanager
    def writing(self, _author: object) -> Iterator[sa.Connection]:
        """Give none."""
        yield cast("sa.Connection", None)


def test_deadlock_is_outlasted():
    """Whoever was taken back begins anew, some times; then it is told."""
    context = Context(cast("Any", None), cast("Any", FakeServices()), ADA, "request")
    attempts: list[int] = []

    def act(until: int) -> str:
        attempts.append(until)
        if len(attempts) < until:
            raise DeadlockError
        return "done"

    assert "done" == context.write_again(lambda _connection: act(6))
    with pytest.raises(DeadlockError):
        context.write_again(lambda _connection: act(99))

    assert [6] * 6 + [99] * 6 == attempts
