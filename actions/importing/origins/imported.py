"""
What became of an entry of another scheduler: a document, a verdict, and why. Pure.

The module of an origin fills an ActionDraft, or raises CannotBeError; ``import_each``
gives every draft a name of its own and has it read by the door, as ``actions post``
does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import count
from typing import Any, TypeVar

from pydantic import JsonValue

from actions.occurrences import make_schedule
from actions.previews.preview_notes import find_touched_nights, make_read_rule
from models.door.documents import action_document, read_action_object
from models.errors import InvalidDocumentError, RuleError
from models.fields.field_types import LONGEST_NAME
from models.scheduled_action import ScheduledActionModel
from models.timing import make_timing

_Entry = TypeVar("_Entry")

#: What data of an unknown form raises when it is read as the form that is expected.
_UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

#: Letters of the name of a file, before its number and suffix.
_LONGEST_FILE = 80


class ImportVerdict(StrEnum):
    """Whether an action runs as its entry did."""

    EXACT = "exact"
    DIFFERS = "differs"
    CANNOT_BE = "cannot_be"


class CannotBeError(Exception):
    """No action can do what the entry does; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """
    What entries leave to their scheduler, and who imports them says.

    Args:
        now: Aware UTC; what is over by then is not imported.
        timezone: Zone of entries that name none.
        queue: Queue of tasks that name none.
        connection: Broker of the tasks, by its name here. None: our own.
        task: Task that does what entries without a task of Celery do.
    """

    now: datetime
    timezone: str = "UTC"
    queue: str = "celery"
    connection: str | None = None
    task: str = "run_command"


@dataclass(slots=True)
class ActionDraft:
    """
    An action in the making.

    Args:
        entry: What its origin calls the entry.
        rule: When it ran there, as people write it there.
        document: Of the action, but for its name.
        differences: What is not the same, as sentences.
        remarks: What is the same, and good to know, as sentences.
        other_clock: What the origin does when clocks change, as the end of a sentence.
            None: the same as we do.
    """

    entry: str
    rule: str
    document: dict[str, JsonValue] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    other_clock: str | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """
    What became of one entry.

    Args:
        entry: What its origin calls it.
        rule: When it ran there, as people write it there.
        verdict: Whether it runs the same.
        notes: What differs or is good to know; or why it cannot be, and what to do.
        document: As ``actions post`` takes it. None: it cannot be.
        file: Name for a file of the document; unlike all others, whatever the case.
    """

    entry: str
    rule: str
    verdict: ImportVerdict
    notes: tuple[str, ...]
    document: Mapping[str, JsonValue] | None = None
    file: str | None = None

    def as_json(self) -> dict[str, JsonValue]:
        """Return what ``--json`` shows."""
        return {
            "entry": self.entry,
            "rule": self.rule,
            "verdict": self.verdict.value,
            "notes": list(self.notes),
            "file": self.file,
            "document": None if self.document is None else dict(self.document),
        }


def import_each(
    entries: Iterable[_Entry],
    name_entry: Callable[[_Entry], str],
    fill: Callable[[ActionDraft, _Entry, Defaults], None],
    defaults: Defaults,
) -> tuple[Imported, ...]:
    """
    Return what became of each of *entries*; one that cannot be read stops no other.

    Args:
        entries: As the reader of their origin found them.
        name_entry: Returns what the origin calls an entry.
        fill: Writes the document, the rule and the notes of an entry into a draft.
        defaults: What entries leave open.
    """
    names, files = _Names(LONGEST_NAME, " ({})"), _Names(_LONGEST_FILE, "-{}")
    found = []
    for entry in entries:
        draft = ActionDraft(name_entry(entry), "")
        try:
            fill(draft, entry, defaults)
            found.append(_finish(draft, names, files, defaults))
        except (CannotBeError, RuleError) as error:
            found.append(_refuse(draft, str(error)))
        except InvalidDocumentError as error:
            found.append(_refuse(draft, *map(str, error.problems)))
        except _UNREADABLE as error:
            what = f"It could not be read ({type(error).__name__}: {error})."
            found.append(_refuse(draft, what[:300]))
    return tuple(found)


def _refuse(draft: ActionDraft, *notes: str) -> Imported:
    return Imported(draft.entry, draft.rule, ImportVerdict.CANNOT_BE, notes)


def _finish(
    draft: ActionDraft, names: _Names, files: _Names, defaults: Defaults
) -> Imported:
    """Read *draft* as the door does, and only then give it a name of its own."""
    clean = _clean(draft.entry)
    document: dict[str, Any] = {"name": clean, **draft.document}
    action = read_action_object(document, default_timezone=defaults.timezone)
    _look_ahead(draft, action, defaults)

    name = names.take(clean)
    if name != clean:
        draft.remarks.append(f"Named {name!r}: another entry is named {clean!r}.")
    elif name != draft.entry:
        draft.remarks.append(f"Named {name!r}: a name is one line of 200 letters.")
    written = action_document(action.model_copy(update={"name": name}))
    verdict = ImportVerdict.DIFFERS if draft.differences else ImportVerdict.EXACT
    notes = (*draft.differences, *draft.remarks)
    file = files.take(_make_file_name(name)) + ".json"
    return Imported(draft.entry, draft.rule, verdict, notes, written, file)


def _look_ahead(
    draft: ActionDraft, action: ScheduledActionModel, defaults: Defaults
) -> None:
    """
    Add what differs on the next nights on which clocks change, if anything.

    Raises:
        CannotBeError: If nothing of it is due any more.
    """
    timing = make_timing(action, holidays={}, created_at=defaults.now)
    assert timing is not None  # no other scheduler follows events of ours
    schedule = make_schedule(timing)
    if schedule.next_from(defaults.now) is None:
        msg = "It is over: it is not due any more. Leave it out."
        raise CannotBeError(msg)
    if draft.other_clock is None:
        return
    rules = [make_read_rule(rule) for rule in schedule.rules]
    nights = find_touched_nights(schedule, rules, defaults.now)
    if nights:
        told = "; ".join(dict.fromkeys(night.describe() for night in nights))
        draft.differences.append(f"When clocks change: {told}. {draft.other_clock}")


def _clean(text: str) -> str:
    """Return *text* as a name may be: one line, not too long, not empty."""
    plain = "".join(
        " " if unicodedata.category(each) in {"Cc", "Zl", "Zp"} else each
        for each in text.encode("utf-8", "replace").decode()
    )
    return " ".join(plain.split())[:LONGEST_NAME].strip() or "unnamed"


def _make_file_name(name: str) -> str:
    """Return *name* in the letters that every file system takes."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
    return slug[:_LONGEST_FILE].strip("-") or "action"


class _Names:
    """Names that are given once each, in whatever case: some file systems have none."""

    def __init__(self, longest: int, numbered: str) -> None:
        self._longest = longest
        self._numbered = numbered
        self._taken: set[str] = set()

    def take(self, name: str) -> str:
        """Return *name*, or with the first number that nobody has."""
        taken = name
        for number in count(2):
            if taken.casefold() not in self._taken:
                break
            suffix = self._numbered.format(number)
            taken = name[: self._longest - len(suffix)] + suffix
        self._taken.add(taken.casefold())
        return taken
