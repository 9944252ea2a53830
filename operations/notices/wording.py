"""The wording of a notice: a mail for people, an event for programs. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import Any, assert_never
from uuid import UUID
from zoneinfo import ZoneInfo

from operations.notices.grouping import NoticeKind

#: Characters of a subject; mail programs show about as many.
LONGEST_SUBJECT = 150

#: The ``type`` of the payload, for each kind of notice.
EVENT_TYPES = {
    NoticeKind.FAILED: "operation.failed",
    NoticeKind.MISSED: "operation.missed",
    NoticeKind.UNCERTAIN: "mail.uncertain",
    NoticeKind.RECOVERED: "operation.recovered",
}

#: What is counted, in the singular and plural, and what happened to it.
COUNTED = {
    NoticeKind.FAILED: ("operation", "operations", "failed"),
    NoticeKind.MISSED: ("occurrence", "occurrences", "missed"),
    NoticeKind.UNCERTAIN: ("mail", "mails", "uncertain"),
}


def make_headline(facts: Mapping[str, Any]) -> str:
    """
    Return what happened, on one line, with the cause at the end.

    >>> make_headline({"kind": "failed", "was": "failed", "app": "sales",
    ...     "count": 400, "more": False, "cause": "mail server refused",
    ...     "action_count": 1, "actions": [{"app": "sales", "name": "weekly"}]})
    'sales: "weekly" failed (400 times): mail server refused'
    """
    kind = NoticeKind(facts["kind"])
    actions, count = facts["actions"], facts["action_count"]
    apps = {action["app"] for action in actions}
    app = facts["app"] or (apps.pop() if len(apps) == 1 else "several apps")
    what = f'"{actions[0]["name"]}"' if count == 1 else f"{count:,} actions"
    times = f"{facts['count']:,} times"
    match kind:
        case NoticeKind.RECOVERED:
            did = "works again" if count == 1 else "work again"
            return f"{app}: {what} {did}, after: {facts['cause']}"
        case NoticeKind.MISSED:
            did = "was not run" if count == 1 else "were not run"
        case NoticeKind.UNCERTAIN:
            did = "left mails uncertain"
        case NoticeKind.FAILED:
            did = "failed"
        case _:
            assert_never(kind)
    if facts["more"]:
        did = f"{did} again ({facts['count']:,} more)"
    elif facts["count"] > 1:
        did = f"{did} ({times})"
    return f"{app}: {what} {did}: {facts['cause']}"


def make_subject(facts: Mapping[str, Any]) -> str:
    """Return the subject of the mail."""
    subject = f"[minutehand] {make_headline(facts)}"
    if len(subject) > LONGEST_SUBJECT:
        subject = f"{subject[: LONGEST_SUBJECT - 1]}…"
    return subject


def make_text(facts: Mapping[str, Any]) -> str:
    """Return the body of the mail: what, why, when, and which commands help."""
    kind = NoticeKind(facts["kind"])
    sections = [
        _tell_what(facts, kind),
        _tell_when(facts),
        _list_actions(facts),
        _tell_commands(facts, kind),
        _tell_why_you(facts, kind),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def make_event(facts: Mapping[str, Any], *, operation_id: UUID) -> bytes:
    """Return the payload of the webhook: the same bytes in every attempt."""
    kind = NoticeKind(facts["kind"])
    data = {
        "notice_id": str(operation_id),
        "app": facts["app"],
        "headline": make_headline(facts),
        "cause": facts["cause"],
        "count": facts["count"],
        "total": facts["total"],
        "first_at": facts["first_at"],
        "last_at": facts["last_at"],
        "actions": [
            {key: action[key] for key in ("uid", "app", "name", "count")}
            for action in facts["actions"]
        ],
        "action_count": facts["action_count"],
        "operations": facts["operations"],
        "commands": find_commands(facts, kind),
    }
    event = {"type": EVENT_TYPES[kind], "timestamp": facts["last_at"], "data": data}
    return json.dumps(event, ensure_ascii=False).encode()


def find_commands(facts: Mapping[str, Any], kind: NoticeKind) -> list[str]:
    """Return the commands that tell more or help, the most useful one first."""
    if kind is NoticeKind.RECOVERED:
        return []
    latest = facts["operations"][-1]
    action = facts["actions"][0]
    # Narrowed to what concerns the reader. Uids of small apps need no quotes, but those
    # who paste into a shell should not have to know that.
    narrow = "" if facts["app"] is None else f" --app {shlex.quote(facts['app'])}"
    if facts["action_count"] == 1:
        narrow = f" --action {shlex.quote(action['uid'])}"
    commands = [f"minutehand operations show {latest}"]
    if kind is NoticeKind.FAILED:
        commands.append(f"minutehand operations list{narrow} --state failed")
        commands.append(f"minutehand operations retry {latest}")
    elif kind is NoticeKind.UNCERTAIN:
        commands.append(f"minutehand mails list{narrow}")
        commands.append(f"minutehand mails confirm {latest}")
        commands.append(f"minutehand mails resend {latest}")
    else:
        at = datetime.fromisoformat(action["occurrence"])
        uid = shlex.quote(action["uid"])
        commands.append(f"minutehand why {uid} --at {at:%Y-%m-%dT%H:%M:%SZ}")
        commands.append(f"minutehand actions run {uid}")
    return commands


def _tell_what(facts: Mapping[str, Any], kind: NoticeKind) -> str:
    one, several, did = COUNTED[NoticeKind(facts["was"])]
    cause = f"Cause: {facts['cause']}"
    count = f"{facts['count']:,} {one if facts['count'] == 1 else several}"
    where = "" if facts["app"] is None else f" of small app {facts['app']}"
    if kind is NoticeKind.RECOVERED:
        told = "Everything that had failed has succeeded since" * (did == "failed")
        told = told or "Every action that missed a run has run again since. Missed"
        return f"{told}: {count}{where}.\n\n{cause}"
    verb = "was" if facts["count"] == 1 else "were"
    match kind:
        case NoticeKind.UNCERTAIN:
            what = (
                f"{count}{where} may or may not have left.\n"
                "Minutehand does not send such mails again by itself: somebody might\n"
                "get one twice. Please find out, then confirm them or have them sent "
                "again."
            )
        case NoticeKind.MISSED:
            what = f"{count}{where} {verb} missed, and will not be run."
        case NoticeKind.FAILED:
            what = f"{count}{where} failed, after all attempts."
        case _:
            assert_never(kind)
    if facts["more"]:
        total = f"In total, there are {facts['total']:,} by now."
        what = f"Since the last notice, {what}\n{total}"
    return f"{what}\n\n{cause}"


def _tell_when(facts: Mapping[str, Any]) -> str:
    first = datetime.fromisoformat(facts["first_at"])
    last = datetime.fromisoformat(facts["last_at"])
    zone = facts["zone"]
    lines = [f"First: {_format(first, zone)}"]
    if last != first:
        lines.append(f"Last:  {_format(last, zone)}")
    return "\n".join(lines)


def _format(instant: datetime, zone: str) -> str:
    utc = f"{instant:%Y-%m-%d %H:%M:%S}Z"
    if zone == "UTC":
        return utc
    return f"{utc} ({instant.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S} {zone})"


def _list_actions(facts: Mapping[str, Any]) -> str:
    if facts["action_count"] == 1 and facts["app"] is not None:
        return ""
    lines = [
        f"    {action['count']:>6,}  {action['app']}: {action['name']}"
        for action in facts["actions"]
    ]
    left = facts["action_count"] - len(facts["actions"])
    if left:
        lines.append(f"            and {left:,} more actions")
    return "\n".join(["Actions:", *lines])


def _tell_commands(facts: Mapping[str, Any], kind: NoticeKind) -> str:
    commands = find_commands(facts, kind)
    if not commands:
        return ""
    return "\n".join(
        ["Commands that help:", *(f"    {command}" for command in commands)]
    )


def _tell_why_you(facts: Mapping[str, Any], kind: NoticeKind) -> str:
    if facts["app"] is None:
        who = "You get this mail because MINUTEHAND_NOTICE_MAIL names your address."
    else:
        who = (
            f"You get this mail because app.json of small app {facts['app']} names\n"
            "your address."
        )
    later = (
        ""
        if kind is NoticeKind.RECOVERED
        else "\nThe next mail about this cause comes in an hour at the earliest."
    )
    return f"-- \n{who}{later}"
