"""The wording of a notice: a mail for people, an event for programs. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from models.units import show_instant
from operations.mail.words import Words, find_words
from operations.notices.grouping import NoticeKind

#: For lists, for programs, and for readers whose language nobody knows.
ENGLISH = find_words("", zone=UTC)

#: Characters of a subject; mail programs show about as many.
LONGEST_SUBJECT = 150

#: The ``type`` of the payload, for each kind of notice.
EVENT_TYPES = {
    NoticeKind.FAILED: "operation.failed",
    NoticeKind.MISSED: "operation.missed",
    NoticeKind.UNCERTAIN: "mail.uncertain",
    NoticeKind.LATE: "operation.late",
    NoticeKind.RESTED: "action.rested",
    NoticeKind.RECOVERED: "operation.recovered",
    NoticeKind.TEST: "notice.test",
}


def make_headline(facts: Mapping[str, Any], words: Words = ENGLISH) -> str:
    """
    Return what happened, on one line, with the cause at the end.

    >>> make_headline({"kind": "failed", "was": "failed", "app": "sales",
    ...     "count": 400, "more": False, "cause": "mail server refused",
    ...     "action_count": 1, "actions": [{"app": "sales", "name": "weekly"}]})
    'sales: "weekly" failed (400 times): mail server refused'
    """
    kind = NoticeKind(facts["kind"])
    if kind is NoticeKind.TEST:
        return words.say("notice.test", app=facts["app"] or "minutehand")
    actions, count = facts["actions"], facts["action_count"]
    apps = {action["app"] for action in actions}
    several = apps.pop() if len(apps) == 1 else words.say("notice.several_apps")
    named = words.say("notice.named", name=actions[0]["name"])
    what = named if count == 1 else words.say("notice.actions", count)
    has_ended = kind is NoticeKind.RECOVERED and facts["was"] == NoticeKind.LATE
    did = words.say("notice.ended" if has_ended else f"notice.{kind}", count, what=what)
    key = "notice.headline"
    if kind is NoticeKind.RECOVERED and not has_ended:
        key = "notice.headline_recovered"
    elif facts["more"]:
        did = words.say("notice.more", facts["count"], did=did)
    elif facts["count"] > 1:
        did = words.say("notice.times", facts["count"], did=did)
    return words.say(key, app=facts["app"] or several, did=did, cause=facts["cause"])


def make_subject(facts: Mapping[str, Any], words: Words = ENGLISH) -> str:
    """Return the subject of the mail."""
    subject = f"[minutehand] {make_headline(facts, words)}"
    if len(subject) > LONGEST_SUBJECT:
        subject = f"{subject[: LONGEST_SUBJECT - 1]}…"
    return subject


def make_text(facts: Mapping[str, Any], words: Words = ENGLISH) -> str:
    """Return the body of the mail: what, why, when, and which commands help."""
    kind = NoticeKind(facts["kind"])
    if kind is NoticeKind.TEST:
        told = words.say("notice.told_test"), _tell_why_you(facts, kind, words)
        return "\n\n".join(told) + "\n"
    sections = [
        _tell_what(facts, kind, words),
        words.say("notice.cause", cause=facts["cause"]),
        _tell_when(facts, words),
        _list_actions(facts, words),
        _tell_commands(facts, words),
        _tell_why_you(facts, kind, words),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


_TOLD_AS_THEY_ARE = ("cause", "count", "total", "first_at", "last_at")


def make_event(facts: Mapping[str, Any], *, operation_id: UUID) -> bytes:
    """Return the payload of the webhook: the same bytes in every attempt."""
    kind = NoticeKind(facts["kind"])
    data = {
        "notice_id": str(operation_id),
        "app": facts["app"],
        "headline": make_headline(facts),
        **{key: facts[key] for key in _TOLD_AS_THEY_ARE},
        "actions": [
            {key: action[key] for key in ("uid", "app", "name", "count")}
            for action in facts["actions"]
        ],
        "action_count": facts["action_count"],
        "operations": facts["operations"],
        "commands": find_commands(facts),
    }
    event = {"type": EVENT_TYPES[kind], "timestamp": facts["last_at"], "data": data}
    return json.dumps(event, ensure_ascii=False).encode()


_COMMANDS = {
    NoticeKind.FAILED: (
        "operations list{narrow} --state failed",
        "operations retry {latest}",
    ),
    NoticeKind.MISSED: ("why {uid} --at {at}", "actions run {uid}"),
    NoticeKind.UNCERTAIN: (
        "mails list{narrow}",
        "mails confirm {latest}",
        "mails resend {latest}",
    ),
    NoticeKind.LATE: ("operations list{narrow}",),
    NoticeKind.RESTED: ("actions resume {uid}",),
}


def find_commands(facts: Mapping[str, Any]) -> list[str]:
    """Return the commands that tell more or help, the most useful one first."""
    kind = NoticeKind(facts["kind"])
    if kind in {NoticeKind.RECOVERED, NoticeKind.TEST}:
        return []
    action = facts["actions"][0]
    uid = shlex.quote(action["uid"])
    # Narrowed to what concerns the reader. Uids of small apps need no quotes, but those
    # who paste into a shell should not have to know that.
    narrow = "" if facts["app"] is None else f" --app {shlex.quote(facts['app'])}"
    if facts["action_count"] == 1:
        narrow = f" --action {uid}"
    at = f"{datetime.fromisoformat(action['occurrence']):%Y-%m-%dT%H:%M:%SZ}"
    told = {"latest": facts["operations"][-1], "narrow": narrow, "uid": uid, "at": at}
    helping = ("operations show {latest}", *_COMMANDS[kind])
    return [f"minutehand {each}".format_map(told) for each in helping]


def _tell_what(facts: Mapping[str, Any], kind: NoticeKind, words: Words) -> str:
    was, count = NoticeKind(facts["was"]), facts["count"]
    what = words.say(f"notice.count_{was}", count)
    if facts["app"] is not None:
        what = words.say("notice.of_app", what=what, app=facts["app"])
    if kind is NoticeKind.RECOVERED:
        return words.say(f"notice.recovered_{was}", what=what)
    what = words.say(f"notice.told_{kind}", count, what=what)
    if facts["more"]:
        total = words.number(facts["total"])
        what = words.say("notice.since_last", what=what, total=total)
    return what


def _tell_when(facts: Mapping[str, Any], words: Words) -> str:
    first = datetime.fromisoformat(facts["first_at"])
    last = datetime.fromisoformat(facts["last_at"])
    zone = ZoneInfo(facts["zone"])
    lines = [words.say("notice.first", at=show_instant(first, zone))]
    if last != first:
        lines.append(words.say("notice.last", at=show_instant(last, zone)))
    return "\n".join(lines)


def _list_actions(facts: Mapping[str, Any], words: Words) -> str:
    if facts["action_count"] == 1 and facts["app"] is not None:
        return ""
    lines = [
        f"    {words.number(action['count']):>6}  {action['app']}: {action['name']}"
        for action in facts["actions"]
    ]
    left = facts["action_count"] - len(facts["actions"])
    if left:
        lines.append(f"            {words.say('notice.more_actions', left)}")
    return "\n".join([words.say("notice.list"), *lines])


def _tell_commands(facts: Mapping[str, Any], words: Words) -> str:
    lines = [f"    {command}" for command in find_commands(facts)]
    return "\n".join([words.say("notice.commands"), *lines]) if lines else ""


def _tell_why_you(facts: Mapping[str, Any], kind: NoticeKind, words: Words) -> str:
    if facts["app"] is None:
        who = words.say("notice.why_operator")
    else:
        who = words.say("notice.why_app", app=facts["app"])
    is_last = kind in {NoticeKind.RECOVERED, NoticeKind.TEST}
    later = "" if is_last else f"\n{words.say('notice.later')}"
    return f"-- \n{who}{later}"
