"""
What applying the document of a small app would change, without changing it.

The document is really applied, and then undone: what is told is what would happen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, get_args

import sqlalchemy as sa

from actions.small_apps.app_row import PartChange
from actions.small_apps.apply import Applied, ApplyTerms, apply_small_app
from actions.small_apps.export import fetch_document
from models.database.engine import writing
from models.database.journal import rolled_back
from models.door.json_text import make_pointer
from models.errors import NotFoundError
from models.small_app import SmallAppModel

#: Entries of a small app that are named; of all others there are counts.
MOST_ENTRIES = 1000

#: Pointers that are told of one entry.
MOST_POINTERS = 20

ChangeOfEntry = Literal["added", "changed", "removed"]
_CHANGES: tuple[ChangeOfEntry, ...] = get_args(ChangeOfEntry)

#: Stands for a member that one of two documents lacks.
_ABSENT = object()

#: The parts of a document that have their entries by name, and the settings.
_NAMED = ("templates", "documents", "holidays")
_SETTINGS = ("name", "timezone", "notices", "mail")


@dataclass(frozen=True, slots=True)
class EntryChange:
    """
    What would become of one entry of a small app.

    Args:
        part: settings, users, groups, domains, templates, documents or holidays.
        name: Of the entry in its part, such as the id of a user.
        pointers: JSON pointers within the entry to what would change, the first of
            them; empty if all of it is added or removed.
    """

    part: str
    name: str
    change: ChangeOfEntry
    pointers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AppDifference:
    """
    What applying a document would change.

    Args:
        revision: The one that the app has, which is not raised; 0: there is no app.
        counts: How many entries of each part would be added, changed and removed.
        entries: The first of them, part by part.
        unlisted: How many more there are.
    """

    uid: str
    created: bool
    revision: int
    counts: Mapping[str, PartChange]
    entries: Sequence[EntryChange]
    unlisted: int
    retimed: Sequence[str]
    events: int


def foresee_apply(
    engine: sa.Engine, model: SmallAppModel, terms: ApplyTerms
) -> AppDifference:
    """
    Return what ``apply_small_app`` would change by *terms*.

    Raises:
        ConflictError, NotFoundError, StaleError, InvalidDocumentError: As it does.
    """
    before: Mapping[str, Any] = {}
    with writing(engine) as connection, rolled_back(connection):
        with suppress(NotFoundError):
            before = fetch_document(connection, model.uid)
        applied = apply_small_app(connection, model, terms)
        after = fetch_document(connection, model.uid)
    return _compare(before, after, applied)


def _compare(
    before: Mapping[str, Any], after: Mapping[str, Any], applied: Applied
) -> AppDifference:
    old, new = _split(before), _split(after)
    counts: dict[str, PartChange] = {}
    entries: list[EntryChange] = []
    total = 0
    for part, values in new.items():
        found = list(_find_changes(part, old[part], values))
        kinds = Counter(each.change for each in found)
        if found:
            counts[part] = PartChange(**{name: kinds[name] for name in _CHANGES})
        total += len(found)
        entries += found[: MOST_ENTRIES - len(entries)]
    raised = bool(counts) or applied.created
    return AppDifference(
        uid=applied.uid,
        created=applied.created,
        revision=0 if applied.created else applied.revision - raised,
        counts=counts,
        entries=entries,
        unlisted=total - len(entries),
        retimed=applied.retimed,
        events=applied.events,
    )


def _split(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the entries of each part by name."""
    users = {each["id"]: each for each in document.get("users", ())}
    groups = (name for user in users.values() for name in user["groups"])
    own = {name: document.get(name) for name in _SETTINGS}
    return {
        "settings": {name: each for name, each in own.items() if each is not None},
        "users": users,
        "groups": dict.fromkeys(groups),
        "domains": {each["name"]: each for each in document.get("domains", ())},
        **{name: dict(document.get(name, {})) for name in _NAMED},
    }


def _find_changes(
    part: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[EntryChange]:
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield EntryChange(part, name, "added", ())
        elif name not in new:
            yield EntryChange(part, name, "removed", ())
        elif old[name] != new[name]:
            pointers: list[str] = []
            _point(old[name], new[name], (), pointers)
            yield EntryChange(part, name, "changed", tuple(pointers))


def _point(
    old: object, new: object, path: tuple[str | int, ...], found: list[str]
) -> None:
    """Add pointers to what differs between *old* and *new*, up to a bound."""
    if len(found) >= MOST_POINTERS or old == new:
        return
    if not (isinstance(old, dict) and isinstance(new, dict)):
        found.append(make_pointer(path))
        return
    for key in dict.fromkeys([*old, *new]):
        _point(old.get(key, _ABSENT), new.get(key, _ABSENT), (*path, key), found)
