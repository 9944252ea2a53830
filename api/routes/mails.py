"""Mails: who was sent what, what it said, and sending it again."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from actions.lookup import fetch_app
from api.answers import ROOT, ListJson, answer, answer_list
from api.guarding import ApiRoute
from api.parameters import OnlyApp, Within, query
from models.operation_state import MailState
from operations.mail.list_mails import (
    ListedMail,
    MailFilter,
    ReadMail,
    fetch_mail,
    fetch_mails,
)
from operations.mail.resolve_mails import (
    ConfirmMailsModel,
    ResendMailsModel,
    ResolvedMails,
    foresee_mails,
    resolve_asked,
)
from overview.mail_preview import TestedMail, TestMailModel
from serving.context import Context, Operator, Viewer
from serving.cursors import Paged
from serving.guarding import Body, heavy

router = APIRouter(prefix=f"{ROOT}/mails", tags=["mails"], route_class=ApiRoute)

_OPERATION = "5e2f1f5c-6b0b-5a0e-9d0e-3f6f0a5a1d11"


def _select(
    app: OnlyApp,
    period: Within,
    *,
    action: Annotated[str | None, query("Uid of a scheduled action.")] = None,
    operation_id: Annotated[
        UUID | None, query("The operation that sends them.")
    ] = None,
    state: Annotated[MailState | None, query("Only mails in this state.")] = None,
    recipient: Annotated[
        str | None, query("Id of a user; of notices, an address.")
    ] = None,
) -> MailFilter:
    return MailFilter(
        app=app,
        action_uid=action,
        operation_id=operation_id,
        recipients=frozenset(() if recipient is None else {recipient}),
        state=state,
        since=period.since,
        until=period.until,
    )


@router.get("", response_model=ListJson[ListedMail])
def list_mails(
    context: Viewer, page: Paged, wanted: Annotated[MailFilter, Depends(_select)]
) -> Response:
    """List mails, the latest change first; a period is that of the last change."""
    return answer_list(context, context.fetch(fetch_mails, wanted, page))


@router.get("/{operation_id}/{step}/{recipient}", response_model=ReadMail)
def read_mail(
    context: Viewer, operation_id: UUID, step: str, recipient: str
) -> Response:
    """
    Return a mail with what it said, as it was handed over to the mail server.

    `content` says whether it was kept. Show its HTML in a sandboxed frame only: it was
    written by an admin of the app.
    """
    senders = context.services.senders
    found = context.fetch(
        fetch_mail, operation_id, step, recipient, app=context.app, senders=senders
    )
    return answer(found)


@router.post("/resend", response_model=ResolvedMails)
@Body(
    ResendMailsModel,
    examples={
        "failed ones of an operation": {"operation_id": _OPERATION, "state": "failed"},
        "how many are uncertain": {"dry_run": True},
    },
)
def resend(context: Operator) -> Response:
    """
    Send uncertain or failed mails again, to their recipients alone.

    Their operations are reopened for that, and return to their former states. Unless
    one operation is named, say how many you expect: another count is refused with 409.
    """
    asked = context.read(ResendMailsModel, "the request")
    return _resolve(context, asked, resend=True)


@router.post("/confirm", response_model=ResolvedMails)
@Body(
    ConfirmMailsModel,
    examples={
        "those of an operation": {"operation_id": _OPERATION},
        "how many are uncertain": {"dry_run": True},
    },
)
def confirm(context: Operator) -> Response:
    """Mark uncertain mails as sent, because you know that they arrived."""
    asked = context.read(ConfirmMailsModel, "the request")
    return _resolve(context, asked, resend=False)


@router.post("/test", response_model=TestedMail)
@Body(
    TestMailModel,
    examples={"to a user": {"app": "shop", "template": "report", "to": "ada"}},
)
@heavy
async def send_test_mail(context: Operator) -> Response:
    """
    Mail a template to one person, to be looked at.

    Only to users of the app and to addresses that get its notices. The answer has what
    the mail said, and whether the mail server took it.
    """
    asked = await run_in_threadpool(context.read, TestMailModel, "the request")
    services = context.services
    app = context.narrow(asked.app) or ""
    await run_in_threadpool(context.fetch, fetch_app, app)
    send = partial(services.trials.send, app, asked, by=context.author)
    return answer(await services.trying.run(context.tenant, send))


def _resolve(context: Context, asked: ConfirmMailsModel, *, resend: bool) -> Response:
    wanted = asked.select(context.narrow(asked.app))
    if asked.dry_run:
        return answer(context.fetch(foresee_mails, wanted))
    engine, count = context.services.engine, asked.expected_count
    by = context.author
    return answer(resolve_asked(engine, wanted, count, resend=resend, by=by))
