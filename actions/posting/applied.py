"""What became of the actions of a small app when a folder was applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from typing_extensions import TypedDict

from actions.posting.doubts import Doubts, WarningJson, find_doubts_of_all, make_warning
from actions.posting.references import References
from models.door.places import Places
from models.errors import Problem
from models.scheduled_action import ScheduledActionModel


class FileChange(StrEnum):
    """What becomes of one action when a folder is applied."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    PRUNED = "pruned"


@dataclass(frozen=True, slots=True)
class Document:
    """
    An action as the door read it, and the file that says it.

    Args:
        source: Name of the file.
        text: Of the file; empty if nobody needs to know the line of a problem.
    """

    source: str
    action: ScheduledActionModel
    text: bytes = field(default=b"", repr=False)

    def say_where(self, problem: Problem) -> str:
        """Return the file, and line and column of *problem* if that is known."""
        place = Places(self.text).locate(problem) if self.text else None
        return self.source if place is None else f"{self.source}:{place[0]}:{place[1]}"


class AppliedEntryJson(TypedDict):
    """
    What became of one action.

    ``file`` is null if it was pruned, ``uid`` if it would be new; ``pointers`` are the
    parts of the document that differ.
    """

    file: str | None
    change: FileChange
    uid: str | None
    name: str
    revision: int
    pointers: list[str]
    next: list[datetime]
    superseded: list[datetime]


class FileWarningJson(WarningJson):
    """The same of one of several files."""

    file: str


class AppliedActionsJson(TypedDict):
    """What became of all actions; ``unlisted`` have no file, and were left alone."""

    app: str
    dry_run: bool
    items: list[AppliedEntryJson]
    counts: dict[str, int]
    unlisted: list[str]
    warnings: list[FileWarningJson]
    more_warnings: bool


@dataclass(frozen=True, slots=True)
class AppliedEntry:
    """
    What became of one action.

    Args:
        source: Its file. None: it has none, and was pruned.
        uid: None: it would be new.
        pointers: The parts of its document that differ.
        following: The next occurrence, if there is one; aware UTC.
        superseded: As of ``Posted``.
    """

    source: str | None
    change: FileChange
    uid: str | None
    name: str
    revision: int
    pointers: tuple[str, ...] = ()
    following: tuple[datetime, ...] = ()
    superseded: tuple[datetime, ...] = ()

    def as_json(self) -> AppliedEntryJson:
        """Return the documented object; keys are only added."""
        return {
            "file": self.source,
            "change": self.change,
            "uid": self.uid,
            "name": self.name,
            "revision": self.revision,
            "pointers": list(self.pointers),
            "next": list(self.following),
            "superseded": list(self.superseded),
        }


@dataclass(frozen=True, slots=True)
class AppliedActions:
    """
    What became of all actions of a small app.

    Args:
        entries: Of each document, in their order; then of what was pruned, by name.
        unlisted: Names of actions that no document has, and that were left alone.
        documents: What was applied.
        known: The names that the small app had then.
    """

    app: str
    is_dry_run: bool
    entries: tuple[AppliedEntry, ...]
    unlisted: tuple[str, ...]
    documents: tuple[Document, ...]
    known: References

    def count(self, change: FileChange) -> int:
        """Return of how many actions *change* is said."""
        return sum(each.change is change for each in self.entries)

    @property
    def pruned(self) -> frozenset[str]:
        """The uids of what was pruned."""
        return frozenset(
            each.uid
            for each in self.entries
            if each.change is FileChange.PRUNED and each.uid
        )

    def find_doubts(self) -> Doubts:
        """Return the first of what may be a mistake; pointers begin with the file."""
        found = find_doubts_of_all(self.known, [each.action for each in self.documents])
        placed = tuple(place_in_files(found.problems, self.documents))
        return Doubts(placed, found.may_be_more)

    def as_json(self) -> AppliedActionsJson:
        """Return the documented object; keys are only added."""
        doubts = find_doubts_of_all(self.known, [d.action for d in self.documents])
        warnings: list[FileWarningJson] = []
        for each in doubts.problems:
            document, problem = _find_document(each, self.documents)
            warnings.append({"file": document.source, **make_warning(problem)})
        return {
            "app": self.app,
            "dry_run": self.is_dry_run,
            "items": [each.as_json() for each in self.entries],
            "counts": {each.value: self.count(each) for each in FileChange},
            "unlisted": list(self.unlisted),
            "warnings": warnings,
            "more_warnings": doubts.may_be_more,
        }


def place_in_files(
    problems: Iterable[Problem], documents: Sequence[Document]
) -> Iterator[Problem]:
    """Yield *problems*, whose pointers begin with a number, with the file instead."""
    for each in problems:
        document, problem = _find_document(each, documents)
        where = document.say_where(problem)
        yield replace(problem, pointer=f"{where} {problem.pointer}".rstrip())


def _find_document(
    problem: Problem, documents: Sequence[Document]
) -> tuple[Document, Problem]:
    """Return the document that *problem* is of, and its problem alone."""
    index, slash, rest = problem.pointer[1:].partition("/")
    return documents[int(index)], replace(problem, pointer=f"{slash}{rest}")
