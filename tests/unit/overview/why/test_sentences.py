"""Why an operation did not run, or waits, in a sentence for its row."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from models.operation_state import Mark, OperationState, Reason
from operations.reasons import REASONS
from overview.why.sentences import (
    ALONE,
    Circumstances,
    Place,
    Remedy,
    Why,
    find_mark,
    tell_why,
)
from tests.scheduling import DAY, MINUTE
from tests.shown import make_shown_operation

SIX = datetime(2026, 10, 20, 6, tzinfo=UTC)
LONDON = ZoneInfo("Europe/London")
OTHER = UUID(int=7)
MISSED = {
    "first": "2026-10-20T00:15:00+00:00",
    "last": "2026-10-20T00:25:00+00:00",
    "count": 3,
    "more": False,
}


#: Returns a row with these fields.
make_row: Any = make_shown_operation


def tell(known: Circumstances = ALONE, **given: Any) -> Why:
    """Return what is told at SIX of an operation with these fields."""
    told = tell_why(make_row(**given), known, now=SIX, zone=LONDON)
    assert told is not None
    return told


#: On both clocks, that of London first.
BEFORE = "2026-10-20 06:59:00 +01:00 (05:59:00Z)"
AT_SIX = "2026-10-20 07:00:00 +01:00 (06:00:00Z)"
AFTER = "2026-10-20 07:01:00 +01:00 (06:01:00Z)"
OCCURRENCES = (
    "3 occurrences, 2026-10-20 01:15:00 +01:00 (00:15:00Z) to"
    " 2026-10-20 01:25:00 +01:00 (00:25:00Z)"
)
FIRST = {"state": "pending", "attempt": 0}
BEHIND_OTHER = Circumstances(blocker=OTHER, blocker_at=SIX - MINUTE)
OUTAGE = {"state": "missed", "reason": Reason.OUTAGE, "details": MISSED}
NO_LEADER = Circumstances(outage=(SIX - MINUTE, SIX))


@pytest.mark.parametrize(
    ("given", "known", "sentence"),
    [
        ({**FIRST, "send_at": SIX + MINUTE}, ALONE, f"Waits for its time, {AFTER}."),
        (
            {
                **FIRST,
                "attempt": 1,
                "send_at": SIX + MINUTE,
                "reason": Reason.STEP_FAILED,
                "error": "refresh: answered 503",
            },
            ALONE,
            f"step failed: refresh: answered 503. Attempt 2 of 3 follows at {AFTER}.",
        ),
        (
            {**FIRST, "send_at": SIX},
            replace(BEHIND_OTHER, hindrance=("another run has not ended",)),
            f"Waits: another run has not ended, the one of {BEFORE}.",
        ),
        (
            {**FIRST, "send_at": SIX - MINUTE},
            Circumstances(program=("nobody leads. Start one: ", "a command")),
            f"Waits to be sent since {BEFORE}: nobody leads. Start one: a command.",
        ),
        (
            {"state": "queued", "queue": "heavy"},
            Circumstances(place=Place(1, 1, is_served=False)),
            "Waits for a worker: position 1 of 1 on heavy, which no worker takes from.",
        ),
        (
            {
                "state": "failed",
                "reason": "step failed: call_webhook",
                "error": "call_webhook: answered 410\nbody: …",
                "finished_at": SIX,
            },
            ALONE,
            (
                f"step failed: call_webhook: answered 410 at {AT_SIX}. Permanent: no"
                " further attempt follows by itself."
            ),
        ),
        (
            {
                "state": "failed",
                "reason": Reason.WORKER_LOST,
                "error": "in every attempt, the worker was lost",
                "attempt": 3,
            },
            ALONE,
            "worker lost: in every attempt, the worker was lost, in attempt 3.",
        ),
        (
            {"state": "canceled", "reason": Reason.CANCELED, "finished_at": SIX},
            ALONE,
            f"canceled: somebody canceled it at {AT_SIX}.",
        ),
        (
            {"state": "skipped", "reason": Reason.OVERLAP},
            BEHIND_OTHER,
            f"overlap: the run of {BEFORE} was not final, and overlap is skip.",
        ),
        (
            {"state": "skipped", "reason": "no longer true: she was here"},
            ALONE,
            f"no longer true: {REASONS[Reason.NO_LONGER_TRUE]} (she was here).",
        ),
        (
            {**OUTAGE, "recorded_at": SIX},
            NO_LEADER,
            (
                f"outage: {OCCURRENCES}. Nobody led from {BEFORE} to {AT_SIX}, and"
                " catch_up does not include them."
            ),
        ),
        (
            {"state": "missed", "reason": Reason.RECORDED_LATE},
            ALONE,
            f"recorded late: {REASONS[Reason.RECORDED_LATE]}.",
        ),
        (
            {**OUTAGE, "recorded_at": SIX - DAY},
            NO_LEADER,
            (
                f"outage: {OCCURRENCES}. A tick for a later instant (minutehand tick"
                " --at) decided so at 2026-10-19 07:00:00 +01:00 (06:00:00Z), and"
                " catch_up does not include them."
            ),
        ),
        (
            {"state": "skipped", "reason": Reason.OVERTAKEN, "details": MISSED},
            ALONE,
            f"overtaken: {REASONS[Reason.OVERTAKEN]} ({OCCURRENCES}).",
        ),
        (
            {"state": "succeeded"},
            Circumstances(uncertain=2),
            (
                "2 mails are uncertain: the mail server or a worker broke off while the"
                " content was on its way. Nothing sends them again unless somebody"
                " decides so."
            ),
        ),
    ],
)
def test_row_says_why(given: dict[str, Any], known: Circumstances, sentence: str):
    """One sentence in the words of whoever refused, with both clocks."""
    assert sentence == tell(known, **given).text


@pytest.mark.parametrize("state", ["running", "succeeded"])
def test_run_that_does_what_it_should_has_nothing_to_say(state: str):
    """A sentence under each row would hide those that matter."""
    assert tell_why(make_row(state=state), now=SIX) is None


@pytest.mark.parametrize("state", list(OperationState))
@pytest.mark.parametrize("reason", [None, "of a newer version: x", *Reason])
def test_every_state_and_reason_has_an_end(state: str, reason: str | None):
    """Whatever a row holds, its sentence is one line that ends."""
    operation = make_row(state=state, reason=reason, error="a\nb\x00c")
    told = tell_why(operation, now=SIX)

    if told is not None:
        text = told.text
        assert text.endswith(".")
        assert text.isprintable()
        assert ".." not in text


def test_error_of_a_megabyte_is_one_short_line():
    """A row stays a row."""
    told = tell(state="failed", reason=Reason.STEP_FAILED, error="x" * 2**20)

    assert len(told.text) < 500


@pytest.mark.parametrize(
    ("given", "known", "remedies"),
    [
        ({"state": "failed", "reason": Reason.STEP_FAILED}, ALONE, [Remedy.RETRY]),
        (
            {"state": "failed", "reason": Reason.STEP_FAILED},
            Circumstances(uncertain=1),
            [Remedy.RETRY, Remedy.MAILS],
        ),
        ({"state": "canceled", "reason": Reason.ACTION_DELETED}, ALONE, []),
        ({"state": "canceled", "reason": "restored: as of 6"}, ALONE, [Remedy.RETRY]),
        (
            {"state": "missed", "reason": Reason.OUTAGE},
            ALONE,
            [Remedy.BACKFILL, Remedy.EDIT],
        ),
        ({"state": "queued"}, ALONE, [Remedy.WORKERS, Remedy.CANCEL]),
        (
            {"state": "pending", "reason": "platform: no space left"},
            ALONE,
            [Remedy.DOCTOR, Remedy.CANCEL],
        ),
    ],
)
def test_row_says_what_can_be_done(
    given: dict[str, Any], known: Circumstances, remedies: list[Remedy]
):
    """The first is the button that helps; what cannot help is not offered."""
    assert remedies == list(tell(known, **given).remedies)


def test_same_failures_are_found_by_the_cause_of_one_of_them():
    """Others are found by their state and reason."""
    failed = tell(state="failed", reason="step failed: refresh")
    skipped = tell(state="skipped", reason=Reason.OVERLAP)

    assert {"same_as": str(UUID(int=1))} == failed.same
    assert {"state": "skipped", "reason": "overlap"} == skipped.same


def test_operation_between_two_attempts_is_retrying():
    """It is pending, and has a reason; one with uncertain mails is that above all."""
    pending = make_row(state="pending")
    between = make_row(state="pending", reason=Reason.WORKER_LOST)

    assert find_mark(pending) is None
    assert Mark.RETRYING is find_mark(between)
    assert Mark.UNCERTAIN is find_mark(make_row(), uncertain=1)
