"""One operation: what became of it, why, and what can be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from starlette.responses import PlainTextResponse, Response

from models.operation_state import OperationState
from models.requests.notes import NoteModel
from models.requests.operations import RetryModel
from models.role import Role
from operations.cancel_and_retry import (
    RETRIED_STATES,
    cancel_or_refuse,
    retry_or_refuse,
)
from operations.operation_log import LogLevel, LogLine, fetch_log
from operations.reasons import find_cause
from overview.operations import ShownOperation, describe_result, fetch_shown_operation
from serving.context import Context, Operator, Viewer
from web.forms import Form, go_to, tell_on_pages
from web.guarding import make_router
from web.operations.fetch_account import Account, fetch_account
from web.operations.gantt import draw_gantt
from web.preferences import format_iso
from web.query import Unread, read_part
from web.questions import after_question
from web.rendering import HEADERS, find_address, render

router = make_router()

_PATH = "/operations/{operation_id}"

#: Lines and letters of the log that the page shows, the latest; all are a link away.
_LINES_SHOWN = 120
_LETTERS_SHOWN = 40_000

#: Letters of the error; all are with the whole log.
_ERROR_SHOWN = 4_000


@dataclass(frozen=True, slots=True)
class Log:
    """
    The log as the page shows it.

    Args:
        count: Lines that were said, with those that were dropped.
        trace: Places in our code, of an error that nobody expected; innermost last.
    """

    lines: tuple[LogLine, ...]
    count: int
    is_whole: bool
    trace: tuple[str, ...]


@router.get(_PATH)
def show_operation(context: Viewer, operation_id: UUID) -> Response:
    """Show what became of an operation, why, and what can be done."""
    app = context.app
    account = read_part(context, fetch_account, operation_id, app=app)
    values: dict[str, Any] = {
        "account": account,
        "log": read_part(context, _read_log, operation_id, app),
        "cli": f"minutehand operations show {operation_id}",
        "curl": _write_curl(context, operation_id),
        "may_retry": False,
        "may_cancel": False,
    }
    if not isinstance(account, Unread):
        values |= _describe(account)
        state = account.operation.state
        may_operate = context.caller.role >= Role.OPERATOR
        values["may_retry"] = may_operate and state in RETRIED_STATES
        values["may_cancel"] = may_operate and not account.operation.is_final
    return render(context, "operations/operation.html", values)


def _describe(account: Account) -> dict[str, Any]:
    """
    Return what the page says of an operation.

    Its cause has the largest words; empty: the sentence that tells why, which *repeats*
    tells to begin with the same words. *is_error_told*: the cause is all of the error.
    """
    shown = account.operation
    cause, error = _find_answer(shown), tell_on_pages(shown.error or "")
    told_whole = (shown.error, (shown.error or "").partition(": ")[2])
    gantt = None
    if shown.started_at is not None:
        gantt = draw_gantt(
            account.stretches,
            due_at=shown.occurrence,
            started_at=shown.started_at,
            now=account.at,
        )
    told = {step.name: describe_result(step.result) for step in shown.steps}
    return {
        "cause": tell_on_pages(cause),
        "repeats": shown.told is not None and cause in str(shown.told.parts[0]),
        "error": error[:_ERROR_SHOWN],
        "is_error_told": not error or (cause != "" and cause in told_whole),
        "is_error_cut": len(error) > _ERROR_SHOWN,
        "gantt": gantt,
        "results": {name: text for name, text in told.items() if text},
    }


def _find_answer(shown: ShownOperation) -> str:
    """Return the largest words of the page; empty: the sentence that tells why."""
    if shown.state is OperationState.FAILED:
        cause = find_cause(shown.reason, shown.error)
        running = [step.name for step in shown.steps]
        head, _, rest = cause.partition(": ")
        return rest if rest and head in running else cause
    return ""


def _read_log(connection: sa.Connection, operation_id: UUID, app: str | None) -> Log:
    lines = fetch_log(connection, operation_id, app=app)
    shown: list[LogLine] = []
    letters = 0
    for line in reversed(lines[-_LINES_SHOWN:]):
        letters += len(line.text)
        if letters > _LETTERS_SHOWN and shown:
            break
        shown.append(line)
    count = lines[-1].number if lines else 0
    is_whole = len(shown) == len(lines) == count
    return Log(tuple(reversed(shown)), count, is_whole, _find_trace(lines))


def _find_trace(lines: Sequence[LogLine]) -> tuple[str, ...]:
    """Return the places in our code that the last unexpected error came from."""
    for line in reversed(lines):
        if line.level is LogLevel.ERROR:
            _message, *rest = line.text.split("\n")
            return tuple(each.strip() for each in rest if each.startswith("  "))
    return ()


def _write_curl(context: Context, operation_id: UUID) -> str:
    key = '-H "Authorization: Bearer $MINUTEHAND_KEY"'
    address = find_address(context.request)
    return f"curl {key} \\\n{address}/api/v1/operations/{operation_id}"


@router.get(f"{_PATH}/log")
def show_log(context: Viewer, operation_id: UUID) -> Response:
    """Return the whole log and error as text, times in UTC."""
    with context.reading() as connection:
        shown = fetch_shown_operation(connection, operation_id, app=context.app)
        lines = fetch_log(connection, operation_id, app=context.app)
    told = [
        f"{format_iso(line.at)} {line.level:7} {line.attempt} {line.step or '-'}"
        f" {line.text}"
        for line in lines
    ]
    if shown.error:
        told.append(f"\n{shown.error}")
    name = f"operation-{operation_id}.log"
    disposition = f'attachment; filename="{name}"'
    headers = {**HEADERS, "Content-Disposition": disposition}
    return PlainTextResponse("\n".join([*told, ""]), headers=headers)


def _ask(
    template: str, context: Context, operation_id: UUID
) -> tuple[str, dict[str, Any]]:
    """Ask whether an operation is to be canceled; or run again, and from which step."""
    shown = context.fetch(fetch_shown_operation, operation_id, app=context.app)
    return template, {"operation": shown}


@after_question(router, f"{_PATH}/cancel", partial(_ask, "operations/cancel.html"))
def cancel(context: Operator, form: Form, operation_id: UUID) -> Response:
    """Cancel an operation."""
    asked = form.read(NoteModel, "cancellation")
    context.change(cancel_or_refuse, operation_id, app=context.app, note=asked.note)
    text = "Canceled. A worker that runs it stops at its next progress point."
    return go_to(f"/operations/{operation_id}", text)


@after_question(router, f"{_PATH}/retry", partial(_ask, "operations/retry.html"))
def retry(context: Operator, form: Form, operation_id: UUID) -> Response:
    """Let an operation run again."""
    asked = form.read(RetryModel, "retry")
    app, step, note = context.app, asked.from_step, asked.note
    context.change(retry_or_refuse, operation_id, from_step=step, app=app, note=note)
    return go_to(f"/operations/{operation_id}", "Retried, under the same id.")
