"""
The actions of the seeded installation: a hundred of each business.

Their columns are derived by the code that posts actions, so a tick would take them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any

from actions.occurrences import Schedule, next_due, parse_timing
from actions.posting.post import derive
from models.door.documents import action_document, read_action_object
from models.revision import Change
from models.timing import make_timing, timing_text
from tests.seeded.businesses import BUSINESSES, Business, Job
from tests.seeded.scene import Scene
from tests.seeded.specials import SPECIALS, Special

#: Of each business.
ACTIONS_EACH = 100

#: A zone that was withdrawn from the time zone database, so its rules cannot be read.
WITHDRAWN = "US/Pacific-New"

_DAY = timedelta(days=1)

#: Whole-number weights of what people write; see ``_make_when``.
_KINDS = {
    "daily": 540,
    "weekly": 255,
    "weekdays": 80,
    "monthly": 40,
    "hourly": 15,
    "interval": 12,
    "calendar": 12,
    "due date": 16,
    "event": 30,
}

_NOTES = (
    "Quarter-end freeze.",
    "The supplier changes its format this week.",
    "Waiting for the new mail template.",
    "Closed for the season.",
    "The office moves; nobody would read it.",
    "Legal asked us to wait.",
)


@dataclass
class SeededAction:
    """
    An action with all that is stored of it.

    Args:
        work: What it does: data, mail, summary, hook, task.
        columns: Of its row.
        revisions: Rows of its revisions, the oldest first.
        schedule: None: events drive it.
        typical_s: How long its runs usually take.
        is_bad: Whether it has failed for days, and nobody looked.
    """

    business: Business
    uid: str
    name: str
    work: str
    document: Mapping[str, Any]
    columns: dict[str, Any]
    schedule: Schedule | None
    typical_s: float
    special: Special | None = None
    is_bad: bool = False
    revisions: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def steps(self) -> list[str]:
        """The names of its steps, in their order."""
        order = ("refresh", "publish", "send_email", "send_execsum", "call_webhook")
        asked = self.document["operations"]
        return [name for name in (*order, "run_task") if asked.get(name)]

    @cached_property
    def domains(self) -> list[str]:
        """The data that it reads: what it names, or all of its app."""
        refresh = self.document["operations"].get("refresh")
        asked = refresh.get("domains") if isinstance(refresh, dict) else None
        return [*(asked or self.business.domains)]

    def find_revision(self, at: datetime) -> int:
        """Return the number of the revision that was in effect."""
        found = [
            each["revision"] for each in self.revisions if each["recorded_at"] <= at
        ]
        return int(found[-1]) if found else 1


def slugify(text: str) -> str:
    """Return *text* in small ASCII letters with hyphens."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")


def make_actions(
    scene: Scene,
    holidays: Mapping[str, Mapping[str, list[tuple[date, date]]]],
    businesses: Sequence[Business] = BUSINESSES,
) -> list[SeededAction]:
    """
    Return all actions of *businesses*, those of each together.

    Args:
        scene: When it is.
        holidays: The days of each calendar, by business.
        businesses: None depends on another.
    """
    found = []
    for business in businesses:
        special = [each for each in SPECIALS if each.app == business.uid]
        for each in special:
            made = _make_action(
                scene, business, each.work, each.document, holidays, each
            )
            found.append(made)
        count = ACTIONS_EACH - len(special)
        for work, document in _make_ordinary(scene, business, count):
            made = _make_action(scene, business, work, document, holidays, None)
            found.append(made)
    return found


def _make_ordinary(
    scene: Scene, business: Business, count: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    pairs = [(job, place) for place in business.places for job in business.jobs]
    for job, place in pairs[:count]:
        name = f"{job.name}, {place}"
        draw = scene.draw("action", business.uid, name)
        document: dict[str, Any] = {
            "name": name,
            "uid": slugify(f"{business.uid} {job.name} {place}"),
            "operations": _make_steps(business, job, draw.sample(business.domains, 2)),
            "when": _make_when(scene, business, job, draw),
        }
        if draw.random() < 0.03:
            document["active"] = False
        is_timed = not {"on", "after"} & set(document["when"])
        if job.work in {"mail", "summary"} and is_timed:
            groups = draw.choice((["managers"], ["office"], ["crew"]))
            document["recipients"] = {"groups": groups}
        if is_timed and draw.random() < 0.1:
            document["catch_up"] = {"runs": "latest", "within": "P1D"}
        if is_timed and "cron_rule" in document["when"] and draw.random() < 0.06:
            document["jitter"] = draw.choice(("PT5M", "PT10M", "PT20M"))
        yield job.work, document


def _make_steps(business: Business, job: Job, domains: Sequence[str]) -> dict[str, Any]:
    slug = slugify(job.name)
    first = business.uid.partition("-")[0]
    steps: dict[str, dict[str, Any]] = {
        "data": {"refresh": {"domains": sorted(domains)}, "publish": {"data": True}},
        "mail": {"send_email": {"template": slug}},
        "summary": {"send_execsum": True},
        "hook": {"call_webhook": {"url": f"https://hooks.{business.host}/{slug}"}},
        "task": {
            "run_task": {"name": f"{first}.{slug.replace('-', '_')}", "queue": first}
        },
    }
    return steps[job.work]


def _make_when(scene: Scene, business: Business, job: Job, draw: Any) -> dict[str, Any]:
    kind = draw.choices(list(_KINDS), list(_KINDS.values()))[0]
    minute = draw.choice((0, 0, 0, 15, 30, 45, *range(0, 60, 5)))
    # Data are loaded at night, and read in the morning.
    hour = draw.choice((1, 2, 3, 4, 5) if job.work == "data" else (6, 7, 8, 9, 12, 17))
    zone = business.zone if draw.random() < 0.92 else "UTC"
    day, weekday = draw.randrange(1, 28), draw.randrange(1, 6)
    due = scene.now.date() + draw.randrange(-20, 120) * _DAY
    rules: dict[str, dict[str, Any]] = {
        "daily": {"cron_rule": f"{minute} {hour} * * *"},
        "weekly": {"cron_rule": f"{minute} {hour} * * {weekday}"},
        "weekdays": {"cron_rule": f"{minute} {hour} * * 1-5"},
        "monthly": {"cron_rule": f"{minute} {hour} {day} * *"},
        "hourly": {"cron_rule": f"{minute} * * * *"},
        "interval": {
            "every": draw.choice(("PT6H", "PT12H", "P2D", "P1W")),
            "anchor": "2026-01-05T04:00:00Z",
        },
        "calendar": {"calendar": f"Mon..Fri *-*-* {hour:02}:{minute:02}:00"},
        "due date": {"due_date": f"{due}T{hour:02}:{minute:02}:00"},
        "event": draw.choice(
            (
                {"on": "instance.user.created"},
                {"after": "app.order_paid", "delay": "P3D"},
                {"after": "instance.user.activated", "delay": "P7D"},
                {"after": "instance.user.last_seen", "delay": "P30D"},
            )
        ),
    }
    return {**rules[kind], "timezone": zone}


def _make_action(
    scene: Scene,
    business: Business,
    work: str,
    given: Mapping[str, Any],
    holidays: Mapping[str, Mapping[str, list[tuple[date, date]]]],
    special: Special | None,
) -> SeededAction:
    action = read_action_object(dict(given))
    uid = given["uid"]
    draw = scene.draw("life", uid)
    created_at = scene.begin - draw.random() * 400 * _DAY
    created_at = created_at.replace(microsecond=0)
    timing = make_timing(
        action, holidays=holidays.get(business.uid, {}), created_at=created_at
    )
    text = None if timing is None else timing_text(timing)
    schedule = None if text is None else parse_timing(text)
    document = action_document(action)
    due = (
        None
        if schedule is None
        else next_due(schedule, uid, after=scene.last_tick, effective_from=created_at)
    )
    columns = {
        "uid": uid,
        "app": business.uid,
        **derive(business.uid, action, text),
        "document": document,
        "active": action.active,
        "effective_from": created_at,
        "next_due_at": None if due is None else due.due_at,
        **dict.fromkeys(
            ("paused_at", "paused_until", "paused_by", "pause_note", "pause_scope")
        ),
        "quarantined_at": None,
        "quarantine_reason": None,
        "created_at": created_at,
        "updated_at": created_at,
        "deleted_at": None,
    }
    typical_s = special.typical_s if special else _draw_typical(work, draw)
    made = SeededAction(
        *(business, uid, action.name, work, document, columns, schedule),
        typical_s=typical_s,
        special=special,
        is_bad=special is None and draw.random() < 0.004,
    )
    _add_revisions(scene, made, draw)
    _add_trouble(scene, made, draw)
    columns["revision"] = made.revisions[-1]["revision"]
    columns["updated_at"] = made.revisions[-1]["recorded_at"]
    return made


def _draw_typical(work: str, draw: Any) -> float:
    least, most = {
        "data": (20, 260),
        "mail": (1.5, 9),
        "summary": (4, 15),
        "hook": (0.2, 2.5),
        "task": (0.05, 0.4),
    }[work]
    return float(draw.uniform(least, most))


def _add_revisions(scene: Scene, made: SeededAction, draw: Any) -> None:
    """Add what was posted, and how it was replaced since."""
    count = made.special.revisions if made.special else draw.choice((1, 1, 1, 2, 3))
    created_at = made.columns["created_at"]
    # The document is the same since before the history begins.
    span = scene.begin - created_at
    authors = [f"{draw.choice(('vera', 'rui', 'maeve', 'tomas', 'priya'))}"]
    for number in range(1, count + 1):
        document = dict(made.document)
        if number < count:
            document = _make_former(document, number)
        made.revisions.append(
            {
                "uid": made.uid,
                "revision": number,
                "document": document,
                "timing": made.columns["timing"],
                "active": made.columns["active"],
                "effective_from": created_at,
                "change": Change.POSTED if number == 1 else Change.REPLACED,
                "changed_by": f"{authors[0]}@{made.business.host}",
                "note": None,
                "recorded_at": created_at + span * ((number - 1) / count),
                "undecided_from": None,
            }
        )


def _make_former(document: dict[str, Any], number: int) -> dict[str, Any]:
    """Return what an action did before somebody thought better of it."""
    refresh = document["operations"].get("refresh")
    if isinstance(refresh, dict) and refresh.get("domains"):
        kept = refresh["domains"][: max(1, number % len(refresh["domains"]))]
        steps = {**document["operations"], "refresh": {**refresh, "domains": kept}}
        return {**document, "operations": steps}
    return {**document, "name": f"{document['name']} (draft {number})"}


def _add_trouble(scene: Scene, made: SeededAction, draw: Any) -> None:
    """Pause a few, put some into quarantine, and delete some."""
    fate = draw.random()
    if made.special is not None:
        fate = {"paused": 0.0, "quarantined": 0.03}.get(made.special.trouble or "", 1.0)
    is_timed = made.schedule is not None
    change: dict[str, Any] = {}
    if fate < 0.02:
        at = scene.now - draw.uniform(1, 9) * _DAY
        until = draw.choice((None, scene.now + draw.randrange(2, 9) * _DAY))
        if until is not None:
            until = until.replace(minute=0, second=0)
        by = f"{draw.choice(('maria', 'ivan', 'yara'))}@{made.business.host}"
        note = draw.choice(_NOTES)
        made.columns |= {
            "paused_at": at,
            "paused_until": until,
            "paused_by": by,
            "pause_note": note,
        }
        change = {"change": Change.PAUSED, "changed_by": by, "note": note, "at": at}
    elif fate < 0.026 or 0.029 < fate < 0.031:
        if not is_timed:
            return
        at = scene.now - 2.1 * _DAY
        timing = made.columns["timing"].replace(
            f'"timezone":"{_find_zone(made)}"', f'"timezone":"{WITHDRAWN}"'
        )
        made.columns |= {
            "timing": timing,
            "quarantined_at": at,
            "quarantine_reason": (
                f"when.timezone: '{WITHDRAWN}' is no longer a known time zone"
            ),
            "next_due_at": None,
        }
        change = {
            "change": Change.QUARANTINED,
            "changed_by": "scheduler",
            "note": made.columns["quarantine_reason"],
            "at": at,
        }
    elif fate < 0.034 and made.special is None:
        at = scene.now - draw.uniform(3, 20) * _DAY
        made.columns |= {"deleted_at": at, "next_due_at": None}
        by = f"tomas@{made.business.host}"
        change = {"change": Change.DELETED, "changed_by": by, "note": None, "at": at}
    if change:
        last = made.revisions[-1]
        at = change.pop("at")
        made.revisions.append(
            {
                **last,
                **change,
                "revision": last["revision"] + 1,
                "timing": made.columns["timing"],
                "recorded_at": at,
                "undecided_from": None,
            }
        )


def _find_zone(made: SeededAction) -> str:
    when = made.document["when"]
    return str((when[0] if isinstance(when, list) else when)["timezone"])
