"""The states, and the page that explains them: one cannot change without the other."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

from models.back_off import ATTEMPTS, LEASE, LOSS_DELAY, RETRY_DELAY
from models.operation_state import (
    FINAL_STATES,
    LIVE_STATES,
    TRANSITIONS,
    OperationState,
)
from operations import rescue
from operations.record import QUEUE_LIMIT

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()


def read_diagram() -> dict[str, set[str]]:
    moves: dict[str, set[str]] = {}
    for start, end in re.findall(r"^ {4}(\S+) --> (\S+)$", PAGE, re.MULTILINE):
        moves.setdefault(start, set()).add(end)
    return moves


def read_rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below *heading*, without its head."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_diagram_draws_every_move_and_no_other():
    """The arrows of the page are the table of the code."""
    expected = {
        state or "[*]": set(moves) for state, moves in TRANSITIONS.items() if moves
    }
    drawn = read_diagram()
    ends = {state for state, moves in drawn.items() if "[*]" in moves}

    assert expected == {
        state: moves - {"[*]"} for state, moves in drawn.items() if moves != {"[*]"}
    }
    # nothing leads on from these
    assert {state for state, moves in TRANSITIONS.items() if not moves} == ends


def test_every_state_is_explained():
    """With whether it is final."""
    rows = {row[0].strip("`"): row[1] for row in read_rows("States")}

    assert {
        state: "yes" if state in FINAL_STATES else "no" for state in OperationState
    } == rows


def test_every_reason_is_explained():
    """With states in which it can be found."""
    rows = {row[0].strip("`"): row[1] for row in read_rows("Reasons")}

    for states in rows.values():
        named = {OperationState(state) for state in re.findall(r"`(\w+)`", states)}
        assert named
        assert OperationState.SUCCEEDED not in named


def test_every_state_is_live_or_final():
    """Live states lead somewhere; a final one only back to the start, by a retry."""
    assert set(OperationState) == LIVE_STATES | FINAL_STATES
    for state in LIVE_STATES:
        assert OperationState.CANCELED in TRANSITIONS[state]
    for state in FINAL_STATES:
        assert TRANSITIONS[state] <= {OperationState.PENDING}


def test_numbers_of_the_page_are_those_of_the_code():
    """Pauses, attempts and leases."""

    def seconds(duration: timedelta) -> str:
        return f"{duration.total_seconds():g} s"

    text = " ".join(PAGE.split())
    retry, back_off = RETRY_DELAY, LOSS_DELAY

    assert (ATTEMPTS, QUEUE_LIMIT) == (3, 100)
    assert "has three attempts" in text
    assert "a hundred runs" in text
    assert f"waits {seconds(retry)}, then {seconds(2 * retry)};" in text
    assert f"waits {seconds(back_off)}, then {seconds(2 * back_off)}." in text
    assert f"for {seconds(LEASE)} and renews" in text
    assert timedelta(minutes=2) == rescue.LOST_AFTER
    assert timedelta(hours=1) == rescue.RESEND_AFTER
