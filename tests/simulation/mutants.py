"""
Mistakes that the simulation must find: each undoes one guard of the real code.

A mutant patches one function. Twelve worlds are tried, for any change of the code or of
the simulation deals every seed another hand; `first` is the one that found it soonest.
`python -m tests.simulation --mutants` tells which worlds do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import actions.decide
import actions.lease
import actions.tick
import dispatch.dispatcher
import dispatch.outbox
import dispatch.watching
import operations.cancel_and_retry
import operations.claiming.claim
import operations.mail.delivery_marks
import operations.record
import operations.rescue
import operations.running.attempt
import operations.running.step_records
import operations.task_ends
import scheduler_server
import tests.simulation.actors
from actions.lease import Leader
from dispatch.outbox import Outbox
from dispatch.task_outbox import TaskOutbox
from dispatch.upkeep import Upkeep
from dispatch.watching import LateLook
from operations.mail.delivery_marks import DeliveryMarks
from tests.simulation import mistakes
from tests.simulation.invariants import InvariantError
from tests.simulation.seeds import simulate
from tests.simulation.strain import replacing
from tests.simulation.world import Emphasis

Patches = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """
    One mistake.

    Args:
        name: What the mistake is.
        breaks: The promise it breaks.
        patches: Makes the mistake while it is entered.
        first: The world that found it soonest when somebody looked; the others follow.
        emphasis: What these worlds have more of than others.
    """

    name: str
    breaks: str
    patches: Patches
    first: int = 0
    emphasis: Emphasis = field(default_factory=Emphasis)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Worlds that may find it, within one simulated hour."""
        return (self.first, *(each for each in range(12) if each != self.first))

    def is_found_in(self, seed: int) -> bool:
        """Tell whether the world of *seed* breaks a promise for it."""
        with self.patches():
            try:
                simulate(seed, emphasis=self.emphasis)
            except InvariantError:
                return True
        return False


def _with(target: Any, name: str, value: Any) -> Patches:
    return lambda: patch.object(target, name, value)


def _with_all(*replacements: tuple[Any, str, Any]) -> Patches:
    return lambda: replacing(*replacements)


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        *("no fence check", "leadership"),
        _with(Leader, "ask_check", mistakes.check_nothing),
        first=3,
    ),
    Mutant(
        *("lease taken while it holds", "leadership"),
        _with(actions.lease, "_take_statement", mistakes.take_any),
    ),
    Mutant(
        *("fence not raised", "leadership"),
        _with(actions.lease, "_take_statement", mistakes.keep_fence),
    ),
    Mutant(
        *("release of any lease", "leadership"),
        _with(Leader, "release", mistakes.release_any),
        emphasis=Emphasis(outages=("stop_frozen_leader",) * 6),
    ),
    Mutant(
        *("side work that does not stop for the minute", "minute"),
        _with(Upkeep, "look", mistakes.look_until_all_is_done),
        first=2,
        emphasis=Emphasis(strain=True),
    ),
    Mutant(
        *("advance without revision", "decision"),
        _with(dispatch.dispatcher, "ask_advance", mistakes.advance_any),
        emphasis=Emphasis(clock_jumps=False, races=20),
    ),
    Mutant(
        *("next_due_at never moved", "decision"),
        _with(dispatch.dispatcher, "ask_advance", mistakes.advance_nothing),
    ),
    Mutant(
        *("look that does not move", "decision"),
        _with(scheduler_server, "run_look", mistakes.look_without_moving),
        emphasis=Emphasis(clock_jumps=False, seconds=True),
        first=4,
    ),
    Mutant(
        *("overtaken without a row", "decision"),
        _with(actions.decide, "tally", mistakes.forget_overtaken),
        emphasis=Emphasis(clock_jumps=False, seconds=True),
        first=3,
    ),
    Mutant(
        *("moved without recording", "decision"),
        _with(dispatch.dispatcher, "ask_record", mistakes.record_half),
        first=7,
    ),
    Mutant(
        *("random ids", "decision"),
        _with(actions.decide, "make_operation_id", mistakes.make_own_id),
        first=2,
        emphasis=Emphasis(clock_jumps=True, outages=("make_clock_jump",) * 8),
    ),
    Mutant(
        *("decided events missed again", "decision"),
        _with(actions.tick, "drop_decided", mistakes.drop_nothing),
        first=7,
        emphasis=Emphasis(clock_jumps=True, outages=("make_clock_jump",) * 8),
    ),
    Mutant(
        *("overlap from a cache", "decision"),
        lambda: patch.object(
            operations.record, "count_live", mistakes.make_cached_count()
        ),
    ),
    Mutant(
        *("mark_sent unconditional", "start"),
        _with(dispatch.outbox, "mark_sent", mistakes.mark_all),
    ),
    Mutant(
        *("send before commit", "dispatch"),
        _with(Outbox, "look", mistakes.send_before_commit),
    ),
    Mutant(
        *("task marked before it is sent", "task"),
        _with(TaskOutbox, "_hand", mistakes.mark_before_sending),
        first=16,
    ),
    Mutant(
        *("answer to a former attempt", "task"),
        _with(operations.task_ends, "_is_answered", mistakes.answered_whenever),
    ),
    Mutant(
        *("answer before its mark lost", "task"),
        _with(operations.task_ends, "_is_answered", mistakes.answered_when_marked),
        emphasis=Emphasis(clock_jumps=False, seconds=True),
    ),
    Mutant(
        *("deadline ends what was answered", "task"),
        _with(operations.task_ends, "_is_overdue", mistakes.overdue_whatever),
        first=4,
    ),
    Mutant(
        *("forged answers", "task"),
        _with(operations.task_ends, "read_token", mistakes.read_any_token),
    ),
    Mutant(
        *("retry ended by an answer from before", "task"),
        _with(operations.cancel_and_retry, "REOPENED", mistakes.REOPENED_AS_BEFORE),
        first=31,
        emphasis=Emphasis(clock_jumps=False),
    ),
    Mutant(
        *("claim whatever the state", "start"),
        _with(
            operations.claiming.claim,
            "claim_statement",
            mistakes.claim_where(mistakes.LEFT, mistakes.RAN_OUT),
        ),
    ),
    Mutant(
        *("claim ignoring the lease", "start"),
        _with(
            operations.claiming.claim,
            "claim_statement",
            mistakes.claim_where(mistakes.LIVE, mistakes.LEFT),
        ),
    ),
    Mutant(
        *("lines left to senders", "start"),
        mistakes.leaving_lines_to_senders,
        first=125,
        # A worker that is asked to stop gives back what stands first in its line.
        emphasis=Emphasis(outages=("stop",) * 20),
    ),
    Mutant(
        *("canceling ends the claim", "start"),
        _with(tests.simulation.actors, "cancel", mistakes.cancel_and_free),
    ),
    Mutant(
        *("heartbeat for any token", "start"),
        _with(operations.claiming.claim, "_renew_statement", mistakes.renew_all),
    ),
    Mutant(
        *("no guard", "effect"),
        _with_all(
            (operations.running.attempt, "guard", mistakes.guard_nothing),
            (operations.mail.delivery_marks, "guard", mistakes.guard_nothing),
        ),
    ),
    Mutant(
        *("finish of any claim", "effect"),
        _with_all(
            (operations.running.attempt, "finish", mistakes.finish_any),
            (operations.running.step_records, "finish", mistakes.finish_any),
        ),
        first=1,
    ),
    Mutant(
        *("no rescue of lost workers", "finality"),
        _with(dispatch.dispatcher, "reclaim_lost_workers", mistakes.rescue_none),
        first=11,
    ),
    Mutant(
        *("no rescue of lost messages", "finality"),
        _with(dispatch.dispatcher, "resend_lost_messages", mistakes.resend_none),
        first=11,
    ),
    Mutant(
        *("rescue of living workers", "start"),
        _with(dispatch.dispatcher, "reclaim_lost_workers", mistakes.rescue_living),
    ),
    Mutant(
        *("uncertain mails again", "mail"),
        _with(DeliveryMarks, "start", mistakes.start_blind),
    ),
    Mutant(
        *("mark after the mail", "mail"),
        _with(DeliveryMarks, "start", mistakes.start_late),
    ),
    Mutant(
        "sent mails again", "mail", _with(DeliveryMarks, "start", mistakes.start_again)
    ),
    Mutant(
        *("uncertain taken for failed", "mail"),
        _with(DeliveryMarks, "end", mistakes.uncertain_is_failed),
        first=1,
    ),
    Mutant(
        *("retry of succeeded steps", "effect"),
        _with(operations.running.step_records, "prepare_steps", mistakes.reset_steps),
    ),
    Mutant(
        *("steps left open", "finality"),
        _with_all(
            (operations.cancel_and_retry, "skip_open_steps", mistakes.close_no_steps),
            (
                operations.running.step_records,
                "skip_open_steps",
                mistakes.close_no_steps,
            ),
            (operations.rescue, "abandon_steps", mistakes.abandon_none),
        ),
    ),
    Mutant(
        *("late told again", "notice"),
        _with(dispatch.watching, "_judged_statement", mistakes.look_again),
        emphasis=Emphasis(clock_jumps=False, expects=True),
        first=3,
    ),
    Mutant(
        *("late marked before it is told", "notice"),
        _with(LateLook, "look", mistakes.tell_late_afterwards),
        first=4,
        emphasis=Emphasis(clock_jumps=False, expects=True),
    ),
)
