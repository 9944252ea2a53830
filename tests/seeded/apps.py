"""The small apps with their users, templates, calendars and documents."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from tests.seeded.actions import slugify
from tests.seeded.businesses import BUSINESSES, FIRST_NAMES, LAST_NAMES, Business
from tests.seeded.scene import Scene

_DAY = timedelta(days=1)

#: Holiday calendars, by business: name to days.
HOLIDAYS: Mapping[str, Mapping[str, list[tuple[date, date]]]] = {
    "pinewood-schools": {
        "se": [
            (date(2026, 10, 26), date(2026, 10, 30)),
            (date(2026, 12, 21), date(2027, 1, 8)),
        ]
    },
    "harbour-logistics": {
        "fr": [
            (date(2026, 11, 11), date(2026, 11, 11)),
            (date(2026, 12, 25), date(2026, 12, 25)),
        ]
    },
}

#: Templates of actions that have a story: subject and text.
_TEMPLATES = {
    "absence-letter": (
        "Absent today",
        (
            "Good afternoon,\n\nyour child was marked absent from a lesson today. "
            "Please tell the school office if you know the reason.\n"
        ),
    ),
    "outage-digest": (
        "Outages of the last day",
        (
            "Good morning,\n\nthe outages of the last day are listed in the grid desk. "
            "Three are not closed yet.\n"
        ),
    ),
    "appointment-reminder": (
        "Your appointment tomorrow",
        (
            "Good morning,\n\nthis is a reminder of your appointment tomorrow. "
            "Please bring your letter and the list of your medicines. If you "
            "cannot come, call us before noon, so that somebody else can have the "
            "time.\n"
        ),
    ),
    "safety-bulletin": (
        "Safety bulletin",
        (
            "Good morning,\n\nleaves on the line: allow for longer braking on the "
            "grades between Telford and Wrexham.\n"
        ),
    ),
    "renewal": (
        "Welcome to your policy",
        "Hello {{ user.name }},\n\nyour plan {{ user.plan }} begins today.\n",
    ),
    "come-back": (
        "We kept your place",
        "Hello {{ user.name }},\n\nthe shelf that you last looked at has new books.\n",
    ),
}

#: A year in which most of them signed up.
_YEAR = 365 * _DAY

#: Of twenty users, these: disabled, expired, never activated.
_DISABLED, _EXPIRED, _NEVER_ACTIVATED = 7, 13, 17


@dataclass
class People:
    """
    The users of a small app.

    Args:
        rows: As they are stored.
        groups: Ids by name of the group.
    """

    rows: list[dict[str, Any]]
    groups: dict[str, list[str]]

    def __post_init__(self) -> None:
        """Remember who gets mails."""
        self.by_id = {row["id"]: row for row in self.rows}

    def find_recipients(self, group: str, now: datetime) -> list[str]:
        """Return who of *group* gets mails: not disabled, expired, or unactivated."""
        return [
            each
            for each in self.groups[group]
            if not self.by_id[each]["disabled"]
            and self.by_id[each]["activated_at"] is not None
            and (self.by_id[each]["expires_at"] or now + _DAY) > now
        ]


def make_people(scene: Scene, business: Business) -> People:
    """Return the users of *business*."""
    draw = scene.draw("people", business.uid)
    rows: list[dict[str, Any]] = []
    seen = set()
    while len(rows) < business.people:
        first, last = draw.choice(FIRST_NAMES), draw.choice(LAST_NAMES)
        uid = f"{slugify(first)[0]}.{slugify(last)}"
        if uid in seen:
            uid = f"{slugify(first)}.{slugify(last)}"
        if uid in seen:
            uid = f"{uid}{draw.randrange(2, 99)}"
        if uid in seen:
            continue
        seen.add(uid)
        number = len(rows) % 20
        # A few sign up in the month that is shown.
        created_at = scene.now - draw.random() ** 2 * _YEAR
        activated_at = created_at + draw.random() * (scene.now - created_at) / 40
        rows.append(
            {
                "app": business.uid,
                "id": uid,
                "email": f"{uid}@{business.host}",
                "name": f"{first} {last}",
                "locale": "en",
                "disabled": number == _DISABLED,
                "expires_at": scene.now - 19 * _DAY if number == _EXPIRED else None,
                "created_at": created_at,
                "activated_at": None if number == _NEVER_ACTIVATED else activated_at,
                "last_seen_at": scene.now - draw.random() ** 2 * 80 * _DAY,
            }
        )
    ids = [row["id"] for row in rows]
    groups = {
        "managers": ids[:4],
        "office": ids[4:9],
        "crew": ids[9:15],
        "warehouse": ids[:17],
    }
    if business.uid == "cedar-clinic":
        groups["patients"] = ids[60:]
    return People(rows, groups)


def make_app_rows(scene: Scene) -> Iterator[dict[str, Any]]:
    """Yield the rows of the apps themselves."""
    for number, business in enumerate(BUSINESSES):
        created_at = scene.now - (500 - 11 * number) * _DAY
        yield {
            "uid": business.uid,
            "name": business.name,
            "timezone": business.zone,
            "notices": {"mail": [f"operations@{business.host}"]},
            "revision": 3 + number % 5,
            "created_at": created_at,
            "updated_at": scene.now - (3 + number) * _DAY,
        }


def make_templates(business: Business) -> Iterator[dict[str, Any]]:
    """Yield the templates that actions of *business* name."""
    named = {slugify(job.name): job.name for job in business.jobs if job.work == "mail"}
    plain = {
        slug: (
            f"{name}: {{{{ action.name }}}}",
            (
                f"Good morning,\n\n{name.lower()} of {business.name}: what is new "
                "since the last one is in your list. Reply to this mail if something "
                "is wrong.\n"
            ),
        )
        for slug, name in named.items()
    }
    for slug, (subject, text) in {**plain, **_TEMPLATES}.items():
        paragraphs = "".join(
            f"<p>{html.escape(each.strip())}</p>" for each in text.split("\n\n")
        )
        yield {
            "app": business.uid,
            "name": slug,
            "subject": subject,
            "text": text,
            "html": f"<html><body>{paragraphs}</body></html>",
        }


def make_holidays(scene: Scene) -> Iterator[dict[str, Any]]:
    """Yield the calendars."""
    for app, calendars in HOLIDAYS.items():
        for name, days in calendars.items():
            yield {
                "app": app,
                "name": name,
                "version": 1,
                "days": [[first.isoformat(), last.isoformat()] for first, last in days],
                "created_at": scene.now - 200 * _DAY,
            }


def make_documents(scene: Scene) -> Iterator[dict[str, Any]]:
    """Yield the documents of apps; of some, what is staged is not live yet."""
    for number, business in enumerate(BUSINESSES):
        for part, key in (("design", "accent"), ("permissions", "may_export")):
            colours: Sequence[object] = ("teal", "amber", "plum")
            if part == "permissions":
                colours = (["managers"], ["managers", "office"], ["office"])
            live = {"title": business.name, key: colours[0]}
            staged = {**live, key: colours[1]} if number % 4 == 0 else live
            yield {
                "app": business.uid,
                "part": part,
                "staged": staged,
                "live": live,
                "previous": {**live, key: colours[2]},
                "staged_at": scene.now - (2 + number) * _DAY,
                "published_at": scene.now - (3 + number) * _DAY,
            }
