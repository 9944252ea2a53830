"""To which fault a broken promise belongs, and when doctor was too late."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import uuid4

from tests.chaos.ledger import Broken
from tests.chaos.case import NAMED_WITHIN_S, Case, Said
from tests.drill.verdict import attribute

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

WELL = Said(("ok broker: answers",), 0, 1.0)
ILL = Said(("ok clock: good", "bad broker: does not answer"), 1, 1.0)


def make_cases() -> list[Case]:
    """Return two faults, a minute apart."""
    return [Case("a", "first", NOON), Case("b", "second", NOON + MINUTE)]


def make_case(seconds: Iterator[float]) -> Case:
    """Return a fault that began now; *seconds* is what its clock shows next."""
    case = Case("a", "first", NOON, monotonic=lambda: next(seconds))
    case.start()
    return case


def test_what_is_wrong_belongs_to_the_fault_before_it() -> None:
    """
    By when its operation was recorded, or its occurrence due.
    """
    cases, known = make_cases(), uuid4()
    broken = [
        Broken("recorded", known),
        Broken("missing", occurrence=NOON + 2 * MINUTE),
    ]

    rest = attribute(broken, {known: NOON + MINUTE / 2}, cases)

    assert [] == rest
    assert [["recorded"], ["missing"]] == [case.wrong for case in cases]


def test_what_is_wrong_before_all_faults_belongs_to_none() -> None:
    """
    Nor does what has no time: it fails the drill all the same.
    """
    cases = make_cases()
    broken = [Broken("early", occurrence=NOON - MINUTE), Broken("unknown")]

    assert ["early", "unknown"] == attribute(broken, {}, cases)
    assert not any(case.wrong for case in cases)


def test_doctor_is_asked_until_it_names_the_cause() -> None:
    """
    What it says of other things does not count.
    """
    case = make_case(count(0.0, 1.0))
    answers = iter([WELL, ILL])

    case.expect_doctor(lambda: next(answers), "^bad broker")

    assert [] == case.wrong
    assert "does not answer" in case.notes[0]


def test_doctor_that_names_it_late_fails() -> None:
    """
    Right, but an operator was left alone for too long.
    """
    case = make_case(count(0.0, NAMED_WITHIN_S + 1.0))

    case.expect_doctor(lambda: ILL, "^bad broker")

    assert [] == case.notes
    assert "after" in case.wrong[0]


def test_doctor_that_never_names_it_fails() -> None:
    """
    The drill goes on, and tells what doctor said instead.
    """
    case = make_case(count(0.0, 50.0))

    case.expect_doctor(lambda: ILL, "^bad queue")

    assert "bad broker" in case.wrong[0]
