"""
Send mails to frozen recipients, marking each one before and after it leaves.

SMTP has no exactly-once delivery. We choose not to repeat: a mail whose fate is unknown
is reported as uncertain, and never sent again by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from models.errors import PostponedError, StepError
from models.operation_state import MailState, Reason
from models.units import format_count
from operations.claiming.claimed import RESENT_KEY
from operations.mail.message import Fate, Mail
from operations.operation_log import LogLevel
from operations.ports import StepContext, StepResult
from operations.recipients import Resolution, User, resolve

#: Key in a step's memo: the ids of its recipients, for the next attempt.
MEMO_KEY = "recipients"


def freeze_recipients(context: StepContext) -> Resolution:
    """
    Return the recipients of this step, resolved once and the same in every attempt.

    Only the ids are frozen: a changed address is used, and a user who was deleted since
    the first attempt becomes a warning.

    Returns:
        Users with an address, ordered by id, and a warning for each name without a
        user.
    """
    users = context.ports.directory.fetch_users(context.app)
    frozen = read_frozen(context.memo)
    if frozen is not None:
        ids, warnings = frozen
    else:
        found = resolve(
            context.recipients, users, now=context.now, triggering=context.user_id
        )
        ids = [user.id for user in found.users]
        warnings = list(found.warnings)
        if not ids and context.recipients is not None:
            warnings.append(_NOBODY)
        context.remember(MEMO_KEY, {"ids": list(ids), "warnings": list(warnings)})

    by_id = {user.id: user for user in users}
    gone = [user_id for user_id in ids if user_id not in by_id]
    present = [by_id[user_id] for user_id in ids if user_id in by_id]
    return Resolution(
        users=tuple(user for user in present if user.email),
        warnings=(
            *warnings,
            *(f"User {user_id!r} was deleted meanwhile." for user_id in gone),
            *(f"User {u.id!r} has no email address." for u in present if not u.email),
        ),
    )


def read_frozen(memo: Mapping[str, JsonValue]) -> tuple[list[str], list[str]] | None:
    """Return the recipients in the memo of a step, and warnings; None: no such yet."""
    frozen = memo.get(MEMO_KEY)
    if not isinstance(frozen, dict):
        return None
    ids, warnings = frozen["ids"], frozen["warnings"]
    # freeze_recipients wrote both as lists of texts
    assert isinstance(ids, list)
    assert isinstance(warnings, list)
    return [str(each) for each in ids], [str(each) for each in warnings]


#: A mail to nobody is no failure, and yet what somebody must see.
_NOBODY = "Nobody gets it: none of the recipients may get mails now."

#: Mails in a row at which the connection may break. One of them may be the cause, and
#: must not keep the others from theirs; more are no accident.
_MOST_BREAKS = 3
_BREAKS = {Fate.UNREACHABLE, Fate.UNCERTAIN}

#: How mails end, in the order in which that is told.
_SENT, _BEFORE, _UNCERTAIN = "sent", "sent in an earlier attempt", "uncertain"
_PUT_OFF, _REFUSED = "put off", "refused"
_ENDS = (_SENT, _BEFORE, _UNCERTAIN, _PUT_OFF, _REFUSED)

#: The end of a mail by what became of it, and its mark.
_OF_FATE = {
    Fate.SENT: (_SENT, MailState.SENT),
    Fate.UNCERTAIN: (_UNCERTAIN, MailState.UNCERTAIN),
    Fate.REFUSED: (_REFUSED, MailState.FAILED),
    Fate.DEFERRED: (_PUT_OFF, MailState.FAILED),
    Fate.UNREACHABLE: (_PUT_OFF, MailState.FAILED),
}

#: The ids of the users whose mails ended so, and why.
_Ended = Mapping[str, list[tuple[str, str]]]


def deliver(
    context: StepContext, mails: Sequence[tuple[User, Mail]], warnings: Sequence[str]
) -> StepResult:
    """
    Send *mails*, each at most once over all attempts of the operation.

    Args:
        context: The context of the step.
        mails: Rendered mails, in the order of sending.
        warnings: Copied into the result.

    Returns:
        ``sent``: how many have left, over all attempts; ``uncertain`` and
        ``failed``: the users concerned; ``warnings``.

    Raises:
        PostponedError: The mail server is unavailable for any mail.
        StepError: Temporary if the server was away, deferred a mail, or broke off at it
            before its content, or at several in a row (sent mails stay sent, and what
            was not begun is no loss); permanent if it refused every mail.
    """
    resent = context.memo.get(RESENT_KEY)
    if isinstance(resent, dict):
        # An operator wants these mails to be sent again; the others are finished.
        mails = [(user, mail) for user, mail in mails if user.id in _list(resent, "to")]
    for warning in warnings:
        context.say(warning, level=LogLevel.WARNING)
    ended = _send_each(context, mails)
    _say_what_became(context, len(mails), ended)
    context.progress(len(mails), len(mails))

    if count := len(ended[_PUT_OFF]):
        # Raised after the last mail: one full mailbox must not delay the others.
        user_id, reason = ended[_PUT_OFF][0]
        msg = (
            f"{count} of {format_count(len(mails), 'mail', 'mails')}"
            f" {'was' if count == 1 else 'were'} put off;"
            f" the first is to {user_id!r}: {reason}"
        )
        raise StepError(msg, permanent=False)
    refused = ended[_REFUSED]
    if refused and len(refused) == len(mails):
        user_id, reason = refused[0]
        msg = f"every mail was refused; the first is to {user_id!r}: {reason}"
        raise StepError(msg, permanent=True)

    result: StepResult = {
        "sent": len(ended[_SENT]) + len(ended[_BEFORE]),
        "uncertain": [user_id for user_id, _ in ended[_UNCERTAIN]],
        "failed": [{"user": user_id, "error": reason} for user_id, reason in refused],
        "warnings": list(warnings),
    }
    return _add_to_former(resent, result) if isinstance(resent, dict) else result


def _send_each(context: StepContext, mails: Sequence[tuple[User, Mail]]) -> _Ended:
    """Send what was not sent before; return how each mail ended."""
    ended: _Ended = {end: [] for end in _ENDS}
    breaks, detail = 0, ""
    with context.ports.mailer.session() as send:
        for done, (user, mail) in enumerate(mails):
            if breaks == _MOST_BREAKS:
                msg = f"the mail server broke off at {breaks} mails in a row: {detail}"
                raise StepError(msg, permanent=False)
            context.progress(done, len(mails), user.id)
            # Mark first: if we die between marking and sending, the next attempt finds
            # the mark and does not repeat the mail. In the opposite order it would be
            # sent twice.
            found = context.deliveries.start(user.id, mail)
            if found is not None:
                end = _BEFORE if found is MailState.SENT else _UNCERTAIN
                ended[end].append((user.id, ""))
                continue
            sending = send(mail, now=context.now)
            end, mark = _OF_FATE[sending.outcome]
            detail = sending.detail
            context.deliveries.end(user.id, mark, None if end == _SENT else detail)
            breaks = breaks + 1 if sending.outcome in _BREAKS else 0
            if sending.outcome is Fate.UNREACHABLE and sending.blames_server:
                # The next mails would also wait for the dead server, each for a
                # deadline.
                if (delay := sending.retry_in) is not None:
                    away = Reason.MAIL_SERVER_AWAY
                    raise PostponedError(detail, delay=delay, reason=away)
                msg = f"the mail server could not be reached: {detail}"
                raise StepError(msg, permanent=False)
            ended[end].append((user.id, detail))
    return ended


def _say_what_became(context: StepContext, count: int, ended: _Ended) -> None:
    """Say how the mails ended; what became of each one is in its delivery mark."""
    told = ", ".join(f"{len(each):,} {end}" for end, each in ended.items() if each)
    is_well = not (ended[_UNCERTAIN] or ended[_PUT_OFF] or ended[_REFUSED])
    context.say(
        f"{format_count(count, 'mail', 'mails')}: {told or 'none is left'}",
        level=LogLevel.INFO if is_well else LogLevel.WARNING,
    )


def _list(value: Mapping[str, JsonValue], key: str) -> list[JsonValue]:
    found = value.get(key)
    return found if isinstance(found, list) else []


def _add_to_former(resent: dict[str, JsonValue], result: StepResult) -> StepResult:
    """Return *result*, completed by the former result for all other recipients."""
    former = resent.get("result")
    if not isinstance(former, dict):
        return result
    again = _list(resent, "to")
    before, now = former.get("sent"), result["sent"]
    # deliver wrote both as numbers
    assert isinstance(before, int)
    assert isinstance(now, int)
    others = [each for each in _list(former, "uncertain") if each not in again]
    failed = [
        each
        for each in _list(former, "failed")
        if not (isinstance(each, dict) and each.get("user") in again)
    ]
    return {
        **result,
        "sent": before + now,
        "uncertain": [*others, *_list(result, "uncertain")],
        "failed": [*failed, *_list(result, "failed")],
    }
