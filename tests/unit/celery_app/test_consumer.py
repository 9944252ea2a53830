"""What is done at most so often."""

from __future__ import annotations

from celery_app.consumer import Quota


def test_each_thing_is_done_once_within_the_while():
    """Asked again, it has to wait for what is left of the while, and no longer."""
    quota = Quota(every_s=60, most=10)

    assert [0.0, 0.0, 59.0, 0.5] == [
        quota.ask("a", now=0.0),
        quota.ask("b", now=0.5),
        quota.ask("a", now=1.0),
        quota.ask("b", now=60.0),
    ]
    assert quota.ask("a", now=60.0) == 0.0


def test_so_many_things_at_most():
    """The next has to wait until the first may be done again; asking does not count."""
    quota = Quota(every_s=1, most=2)
    quota.ask("a", now=0.0)
    quota.ask("b", now=0.25)

    assert [0.5, 0.25, 0.0] == [
        quota.ask("c", now=0.5),
        quota.ask("d", now=0.75),
        quota.ask("c", now=1.0),
    ]
