"""
Lists that are kept beside an enum, or beside another list, hold all of it.

Where a kind, step, state or reason is added and one of these places forgotten, the
test of that place fails and names it. Where the code decides by ``match``, mypy does.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client import Counter

from actions.explaining.why import EXIT_WORDS, STATE_WORDS
from actions.previews.sentences import HAPPENED, WAS
from celery_app.routing import TASK_OF_QUEUE
from cli.output import STATE_STYLES
from cli.status import STYLES
from dispatch.backfills.planning import Recorded
from dispatch.backfills.progress import BACKFILLED_STATES
from dispatch.dispatcher import DECISIONS
from models.event import EventName
from models.operation import HEAVY_STEPS, MAILING_STEPS, OperationModel, PublishModel
from models.operation_state import (
    FINAL_STATES,
    LANES,
    LIVE_STATES,
    OPEN_STEPS,
    TRANSITIONS,
    TROUBLED_STATES,
    WORKER_QUEUES,
    Mark,
    OperationState,
    Queue,
    Reason,
    StepState,
)
from models.revision import EXITS
from models.when import EVENT_KINDS, TIME_KINDS, EventModel, TimeModel
from models.when import KINDS as WHEN_KINDS
from operations.cancel_and_retry import RETRIED_STATES
from operations.fleet.processes import AGREED, ProcessRole
from operations.mail.resolve_mails import RESENT_STATES
from operations.mail.words import FALLBACK, read_sentences
from operations.notices.grouping import NoticeKind
from operations.notices.stored import KINDS
from operations.notices.wording import EVENT_TYPES
from operations.reasons import REASONS, STATES
from operations.steps import STEPS
from operations.steps.publish import KINDS as PUBLISHED
from overview.doctor.finding import Health
from overview.installation.figures import LIVE_IN_ORDER
from telemetry import MESSAGES_SENT, OCCURRENCES_RECORDED, OPERATIONS_FINISHED
from web.actions.words import KINDS as KIND_WORDS
from web.charts import LOOKS
from web.editor.builders import STEPS as OFFERED
from web.operations.routes import MARKS as COUNTED


def get_labels(metric: Counter, label: str) -> set[str]:
    """Return the values of *label* that have a series from the start."""
    (family,) = metric.collect()
    return {sample.labels[label] for sample in family.samples}


def parse_step(step: str) -> ast.Module:
    """Parse the file of *step*."""
    return ast.parse(Path(inspect.getfile(inspect.unwrap(STEPS[step]))).read_text())


def find_attributes(step: str) -> set[str]:
    """Return each ``b`` of an ``a.b`` in the file of *step*."""
    nodes = ast.walk(parse_step(step))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def find_steps_that_use(name: str) -> set[str]:
    """Return the steps whose file imports *name*."""
    found = set()
    for step in STEPS:
        imports = (
            n for n in ast.walk(parse_step(step)) if isinstance(n, ast.ImportFrom)
        )
        if any(alias.name == name for node in imports for alias in node.names):
            found.add(step)
    return found


@pytest.mark.parametrize(
    ("place", "listed", "whole"),
    [
        ("models/operation_state.py: LANES", {*LANES, Queue.TASKS}, Queue),
        (
            "models/operation_state.py: TRANSITIONS",
            TRANSITIONS,
            {None, *OperationState},
        ),
        ("models/when.py: TIME_KINDS", TIME_KINDS.values(), get_args(TimeModel)),
        ("models/when.py: EVENT_KINDS", EVENT_KINDS.values(), get_args(EventModel)),
        ("celery_app/routing.py: TASK_OF_QUEUE", TASK_OF_QUEUE, WORKER_QUEUES),
        ("operations/fleet/processes.py: AGREED", AGREED, ProcessRole),
        ("operations/steps: STEPS", STEPS, OperationModel.model_fields),
        (
            "web/editor/builders.py: STEPS, but for those of the installation",
            {*OFFERED, "maintenance", "notify"},
            OperationModel.model_fields,
        ),
        ("operations/steps/publish.py: KINDS", PUBLISHED, PublishModel.model_fields),
        ("dispatch/dispatcher.py: DECISIONS", DECISIONS, TRANSITIONS[None]),
        ("actions/explaining/why.py: EXIT_WORDS", EXIT_WORDS, EXITS),
        ("actions/explaining/why.py: STATE_WORDS", STATE_WORDS, OperationState),
        ("operations/reasons.py: REASONS", REASONS, Reason),
        ("operations/reasons.py: STATES", STATES, OperationState),
        ("actions/previews/sentences.py: HAPPENED", HAPPENED, EventName),
        ("actions/previews/sentences.py: WAS", WAS, EventName),
        ("operations/notices/stored.py: KINDS", KINDS, TROUBLED_STATES),
        ("operations/notices/wording.py: EVENT_TYPES", EVENT_TYPES, NoticeKind),
        (
            "operations/mail/languages/en.json: notice.<kind>",
            {
                NoticeKind(kind)
                for kind in NoticeKind
                if f"notice.{kind}" in read_sentences(FALLBACK)
            },
            NoticeKind,
        ),
        ("overview/installation/figures.py: LIVE_IN_ORDER", LIVE_IN_ORDER, LIVE_STATES),
        ("cli/output.py: STATE_STYLES", STATE_STYLES, OperationState),
        ("cli/status.py: STYLES", STYLES, Health),
        ("web/actions/words.py: KINDS", KIND_WORDS, WHEN_KINDS),
        ("web/charts.py: LOOKS", LOOKS, {*OperationState, *Mark}),
        (
            "web/charts.py: LOOKS in lanes",
            {state for state, look in LOOKS.items() if look.lane},
            OperationState,
        ),
        ("web/operations/routes.py: MARKS", COUNTED, {*OperationState, *Mark}),
    ],
)
def test_list_holds_all_there_is(
    place: str, listed: set[object], whole: set[object]
) -> None:
    """What is added to the enum has its entry in each list that is looked up by it."""
    assert set(whole) == set(listed), place


@pytest.mark.parametrize(
    ("metric", "label", "whole"),
    [
        (MESSAGES_SENT, "queue", Queue),
        (OPERATIONS_FINISHED, "state", FINAL_STATES),
        (OCCURRENCES_RECORDED, "decision", DECISIONS.values()),
    ],
)
def test_every_series_is_there_from_the_start(
    metric: Counter, label: str, whole: set[str]
) -> None:
    """
    An alert sees the first of its kind: telemetry.py imports no enum, and lists them.
    """
    assert {str(each) for each in whole} == get_labels(metric, label)


def test_mailing_steps_are_those_that_freeze_recipients() -> None:
    """A step that mails to the recipients of the action is told to have some."""
    assert MAILING_STEPS == find_steps_that_use("freeze_recipients")


def test_heavy_steps_are_those_that_move_what_an_app_stages_or_publishes() -> None:
    """No two such operations of an app may run at once, so each is in HEAVY_STEPS."""
    moving = {
        step
        for step, names in ((each, find_attributes(each)) for each in STEPS)
        if not {"stage", "publish"}.isdisjoint(names)
    }

    assert moving == HEAVY_STEPS


def test_what_may_be_reopened_is_what_may_become_pending_again() -> None:
    """Retry, resend and backfill move as TRANSITIONS says, and nothing else reopens."""
    reopened = {state for state in FINAL_STATES if TRANSITIONS[state]}

    assert reopened == RESENT_STATES | BACKFILLED_STATES
    assert RETRIED_STATES < BACKFILLED_STATES
    assert RETRIED_STATES < RESENT_STATES
    assert {OperationState.PENDING} == {to for s in reopened for to in TRANSITIONS[s]}


def test_backfills_know_each_state_of_an_operation() -> None:
    """What is recorded of an occurrence is a state, or that there is none."""
    assert {str(each) for each in OperationState} < {str(each) for each in Recorded}


def test_steps_are_open_while_the_operation_can_be() -> None:
    """A state is open for a step exactly if an operation of that name is live."""
    live = {state.value for state in LIVE_STATES}

    assert {state for state in StepState if state.value in live} == OPEN_STEPS
