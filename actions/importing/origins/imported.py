"""
What became of an entry of another scheduler: a document, a verdict, and why. Pure.

A reader gives entries, and the module of their origin a table: what each field of
theirs is here, or why it is not. ``import_each`` applies the table to an ActionDraft,
gives every draft a name of its own and has it read by the door, as ``actions post``
does.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import count
from typing import Any, NoReturn

from pydantic import JsonValue

from actions.occurrences import Schedule, make_schedule
from actions.previews.preview_notes import (
    find_either_days,
    find_touched_nights,
    make_read_rule,
)
from models.door.documents import ReadContext, action_document, read_action_object
from models.errors import InvalidDocumentError, Problem, RuleError
from models.fields.field_types import LONGEST_NAME
from models.fields.task_rules import NO_BROKER, TaskRules
from models.json_form import ASIDE
from models.scheduled_action import ScheduledActionModel
from models.timing import make_timing
from models.when import MOST_RULES

#: What data of an unknown form raises when it is read as the form that is expected.
UNREADABLE_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

#: The key of what a reader leaves in the place of something that JSON has not.
UNREADABLE = "__unreadable__"

#: Letters of the name of a file, before its number and suffix.
_LONGEST_FILE = 80


class ImportVerdict(StrEnum):
    """Whether an action runs as its entry did."""

    EXACT = "exact"
    DIFFERS = "differs"
    CANNOT_BE = "cannot_be"


class CannotBeError(Exception):
    """No action can do what the entry does; the message says what to do instead."""


def refuse(told: str) -> NoReturn:
    """Say why an entry cannot be, and what to do instead: end with CannotBeError."""
    raise CannotBeError(told)


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


@dataclass(frozen=True, slots=True)
class Entry:
    """
    What another scheduler ran, as its reader found it.

    Args:
        name: What its origin calls it.
        fields: By the names of its origin.
        problem: Why it could not be read; empty if it could.
    """

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """
    An object that an origin keeps: what it was, and what it held; none of it was run.

    Args:
        kind: Its class, as the origin writes it.
        state: What it held, by name.
    """

    kind: str
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ActionDraft:
    """
    An action in the making.

    Args:
        fields: Of its entry.
        defaults: For what they leave open.
        rule: When it ran there, as people write it there.
        document: Of the action, but for its name.
        differences: What is not the same, as sentences.
        remarks: What is the same, and good to know, as sentences.
        other_clock: What the origin does when clocks change, as the end of a sentence.
            None: the same as we do.
    """

    fields: Mapping[str, Any]
    defaults: Defaults
    rule: str = ""
    document: dict[str, JsonValue] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    other_clock: str | None = None

    def set_rules(self, rules: Sequence[JsonValue]) -> None:
        """
        Let it be due when any of *rules* is.

        Raises:
            CannotBeError: If they are too many for one action.
        """
        if len(rules) > MOST_RULES:
            refuse(
                f"It takes {len(rules)} rules; an action has at most {MOST_RULES}."
                " Write several actions."
            )
        self.document["when"] = rules[0] if len(rules) == 1 else list(rules)

    def make_due_date(
        self, instant: datetime, text: str, remedy: str
    ) -> dict[str, JsonValue]:
        """
        Return the rule that is due at *instant*, which is written *text*.

        Raises:
            CannotBeError: If it has passed; *remedy* is what to do then.
        """
        self.rule = f"at {text}"
        if instant <= self.defaults.now:
            refuse(f"{text} has passed. {remedy}, or set a new date.")
        due_date = self.floor(instant).isoformat()
        return {"due_date": due_date, "timezone": self.defaults.timezone}

    def floor(self, instant: datetime) -> datetime:
        """Return *instant* without its fraction of a second, and say so."""
        if instant.microsecond:
            self.differences.append("It runs on the whole second before.")
        return instant.replace(microsecond=0)

    def switch_off(self, how: str) -> None:
        """Make the action inactive, for there it is *how*, such as disabled."""
        self.document["active"] = False
        self.remarks.append(f"It is {how}, so it is not active here.")


#: What the fields of an origin are here, in the order in which they are told of; each
#: function gets None for a field that an entry has not.
Table = Mapping[str, Callable[[ActionDraft, Any], None]]


@dataclass(frozen=True, slots=True)
class Imported:
    """
    What became of one entry, as ``--json`` shows it.

    Args:
        entry: What its origin calls it.
        rule: When it ran there, as people write it there.
        verdict: Whether it runs the same.
        notes: What differs or is good to know; or why it cannot be, and what to do.
        file: Name for a file of the document; unlike all others, whatever the case.
        document: As ``actions post`` takes it. None: it cannot be.
    """

    entry: str
    rule: str
    verdict: ImportVerdict
    notes: tuple[str, ...]
    file: str | None = None
    document: Mapping[str, JsonValue] | None = None


def import_each(
    entries: Iterable[Entry], table: Table, defaults: Defaults
) -> tuple[Imported, ...]:
    """
    Return what became of each of *entries*; one that cannot be read stops no other.

    Args:
        entries: As the reader of their origin found them.
        table: Of their origin.
        defaults: What entries leave open.
    """
    names: set[str] = set()
    files: set[str] = set()
    found = []
    for entry in entries:
        draft = ActionDraft(entry.fields, defaults)
        try:
            if entry.problem:
                refuse(entry.problem)
            for name, read in table.items():
                read(draft, entry.fields.get(name))
            found.append(_finish(entry.name, draft, names, files))
        except (CannotBeError, RuleError) as error:
            found.append(_refuse(entry, draft, str(error)))
        except InvalidDocumentError as error:
            found.append(_refuse(entry, draft, *map(str, error.problems)))
        except UNREADABLE_ERRORS as error:
            found.append(_refuse(entry, draft, explain_unreadable(error)))
    return tuple(found)


def _refuse(entry: Entry, draft: ActionDraft, *notes: str) -> Imported:
    return Imported(entry.name, draft.rule, ImportVerdict.CANNOT_BE, notes)


def explain_unreadable(error: Exception) -> str:
    """Return why an entry could not be read, as a sentence."""
    return f"It could not be read ({type(error).__name__}: {error})."[:300]


def read_schedule(document: Mapping[str, Any], now: datetime) -> Schedule:
    """
    Return when *document*, posted at *now*, would be due; it needs no name or task.

    Raises:
        InvalidDocumentError: If the door refuses it.
    """
    step = {"run_task": {"name": "task", "queue": "celery"}}
    whole = {"name": "rule", "operations": step, **document}
    return _make_schedule(read_action_object(whole), now)


def _make_schedule(action: ScheduledActionModel, now: datetime) -> Schedule:
    timing = make_timing(action, holidays={}, created_at=now)
    assert timing is not None  # no other scheduler follows events of ours
    return make_schedule(timing)


def write_instant(instant: datetime) -> str:
    """Return an aware *instant* as text, on a whole second of UTC."""
    return instant.astimezone(UTC).replace(microsecond=0).isoformat()


def _finish(
    name: str, draft: ActionDraft, names: set[str], files: set[str]
) -> Imported:
    """Read *draft* as the door does, and only then give it a name of its own."""
    clean = clean_name(name)
    document: dict[str, Any] = {"name": clean, **draft.document}
    action = read_action_object(document, ReadContext(draft.defaults.timezone))
    _look_ahead(draft, _make_schedule(action, draft.defaults.now))
    draft.remarks += [
        f"{each.message} {each.hint}" for each in find_either_days(action)
    ]
    own = _take(names, clean, LONGEST_NAME, " ({})")
    if own != clean:
        draft.remarks.append(f"Named {own!r}: another entry is named {clean!r}.")
    elif own != name:
        draft.remarks.append(f"Named {own!r}: a name is one line of 200 letters.")
    return Imported(
        name,
        draft.rule,
        ImportVerdict.DIFFERS if draft.differences else ImportVerdict.EXACT,
        (*draft.differences, *draft.remarks),
        _take(files, _make_file_name(own), _LONGEST_FILE, "-{}") + ".json",
        action_document(action.model_copy(update={"name": own})),
    )


def _look_ahead(draft: ActionDraft, schedule: Schedule) -> None:
    """
    Add what differs on the next nights on which clocks change, if anything.

    Raises:
        CannotBeError: If nothing of it is due any more.
    """
    if schedule.next_from(draft.defaults.now) is None:
        refuse("It is over: it is not due any more. Leave it out.")
    if draft.other_clock is None:
        return
    rules = [make_read_rule(rule) for rule in schedule.rules]
    nights = find_touched_nights(schedule, rules, draft.defaults.now)
    if nights:
        told = "; ".join(dict.fromkeys(night.describe() for night in nights))
        draft.differences.append(f"When clocks change: {told}. {draft.other_clock}")


def clean_name(text: str) -> str:
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


def _take(taken: set[str], name: str, longest: int, numbered: str) -> str:
    """Return *name*, or with a number, unlike those *taken*, whatever the case."""
    own = name
    for number in count(2):
        if own.casefold() not in taken:
            break
        suffix = numbered.format(number)
        own = name[: longest - len(suffix)] + suffix
    taken.add(own.casefold())
    return own


@dataclass(frozen=True, slots=True)
class Report:
    """
    What became of all entries of an origin, as ``--json`` shows it.

    Args:
        origin: Its name.
        exact: How many entries are so.
        differs: As *exact*.
        cannot_be: As *exact*.
        notes: What holds for all of them, as sentences.
        entries: In its order.
        if_empty: Where to look if there are no entries, as a sentence.
    """

    origin: str
    exact: int
    differs: int
    cannot_be: int
    notes: tuple[str, ...]
    entries: tuple[Imported, ...]
    if_empty: str = field(default="", metadata=ASIDE)

    @property
    def documents(self) -> list[Mapping[str, JsonValue]]:
        """The documents, in order."""
        return [each.document for each in self.entries if each.document is not None]

    def find_obstacles(self, rules: TaskRules) -> Iterator[str]:
        """
        Yield why this installation would refuse documents, and how many of them.

        Args:
            rules: Where it lets ``run_task`` send tasks: a matter of its settings,
                which change; so a document is written all the same.
        """
        found: Counter[str] = Counter()
        for document in self.documents:
            try:
                read_action_object(dict(document), ReadContext(task_rules=rules))
            except InvalidDocumentError as error:
                found.update(_describe(each, rules) for each in error.problems)
        for message, number in found.items():
            yield f"{number} of {len(self.documents)} would be refused here: {message}"


def make_report(
    origin: str, entries: tuple[Imported, ...], *notes: str, if_empty: str = ""
) -> Report:
    """Return the report of *entries*; see Report."""
    counts = Counter(entry.verdict for entry in entries)
    exact, differs, cannot_be = (counts[verdict] for verdict in ImportVerdict)
    return Report(origin, exact, differs, cannot_be, notes, entries, if_empty)


def _describe(problem: Problem, rules: TaskRules) -> str:
    """Return why a document would be refused, and which option of the import helps."""
    hint = problem.hint
    if problem.message == NO_BROKER and rules.connections:
        known = rules.connections
        said = f" {known[0]}" if len(known) == 1 else f", one of: {', '.join(known)}"
        hint = f"Add --connection{said}."
    return f"{problem.message} {hint}".rstrip()
