"""Why nothing ran in a minute of an action that starts after another one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from actions.explaining.recorded import FormerAction
from actions.explaining.why import Verdict, explain
from tests.scheduling import MINUTE, TASK
from tests.unit.actions.explaining.recording import (
    NOW,
    make_history,
    make_operation,
    make_revision,
)

POSTED = datetime(2026, 11, 1, tzinfo=UTC)
AT = datetime(2026, 11, 9, 7, tzinfo=UTC)

ENDED = make_operation(AT, 7, state="failed", finished_at=AT)
FORMER = FormerAction("load", None, ENDED)
OPERATION = f"(operation {UUID(int=7)})"
AT_EIGHT = "at 2026-11-09 08:00:00 +01:00 (07:00:00Z)"


def ask(
    former: FormerAction | None, at: datetime = AT, **bounds: Any
) -> tuple[Verdict, str]:
    """Return the answer about an action that calls the former one by an old name."""
    when = {"after_action": "old", "delay": "PT10M", "timezone": "Europe/Paris"}
    document = {"name": "next", "operations": TASK, "when": when, **bounds}
    posted = make_revision(POSTED, None, document=document)
    history = make_history(revisions=(posted,), former=former)
    (answer,) = explain(history, at)
    return answer.verdict, answer.text


@pytest.mark.parametrize(
    ("former", "at", "words"),
    [
        (FORMER, AT, f"minute. The latest of 'load' failed {AT_EIGHT} {OPERATION}"),
        (FORMER, NOW + MINUTE, "; so far no run led to this minute. The latest of"),
        (replace(FORMER, latest=None), AT, ", and none of 'load' is recorded before"),
        (replace(FORMER, deleted_at=AT), AT, f", and 'load' was deleted {AT_EIGHT}"),
        *(
            (replace(FORMER, latest=replace(ENDED, **run)), AT, words)
            for run, words in (
                ({"state": "skipped"}, f"'load' was skipped {AT_EIGHT}"),
                ({"state": "running", "finished_at": None}, "'load' has not ended ("),
                ({"trigger": "backfill"}, "failed (a backfill, which nothing follows)"),
            )
        ),
    ],
)
def test_what_became_of_the_other_action_is_told(
    former: FormerAction, at: datetime, words: str
):
    """By its present name, with how it has to end and the clock of the action."""
    verdict, text = ask(former, at)

    assert Verdict.NOT_DUE == verdict
    assert text.startswith("it starts 10 minutes after 'load' succeeded; ")
    assert words in text


def test_outside_its_bounds_an_action_says_so():
    """Whatever became of the other one."""
    verdict, text = ask(FORMER, starts_at="2026-11-20T00:00:00Z")

    assert (Verdict.NOT_EFFECTIVE, True) == (verdict, "(starts_at)" in text)
