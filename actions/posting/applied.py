"""What became of the actions of a small app when a folder was applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

from actions.posting.changes import CountedChanges
from actions.posting.doubts import find_doubts_of_all
from actions.posting.references import References
from models.door.places import Places
from models.errors import Problem
from models.json_form import ASIDE
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


@dataclass(frozen=True, slots=True)
class AppliedEntry:
    """
    What became of one action; times are aware UTC.

    Args:
        file: Null: it has none, and was pruned.
        uid: Null: it would be new.
        pointers: The parts of its document that differ.
        next: The next occurrence, if there is one.
        superseded: As of ``Posted``.
        runs: Of a dry run: what it would do to the runs that time drives.
        zone: That of its rule now, or before it was pruned.
    """

    file: str | None
    change: FileChange
    uid: str | None
    name: str
    revision: int
    pointers: tuple[str, ...] = ()
    next: tuple[datetime, ...] = ()
    superseded: tuple[datetime, ...] = ()
    runs: CountedChanges | None = None
    zone: ZoneInfo | None = field(default=None, metadata=ASIDE)


@dataclass(frozen=True, slots=True)
class FileProblem:
    """What may be a mistake in a file; *placed* begins with its line and column."""

    file: str
    pointer: str
    message: str
    hint: str
    placed: Problem = field(metadata=ASIDE)


@dataclass(frozen=True, slots=True)
class AppliedFolder:
    """What became of all actions, and what in their files may be a mistake."""

    app: str
    dry_run: bool
    items: tuple[AppliedEntry, ...]
    counts: Mapping[FileChange, int]
    unlisted: tuple[str, ...]
    warnings: tuple[FileProblem, ...]
    more_warnings: bool


@dataclass(frozen=True, slots=True)
class AppliedActions:
    """
    What became of all actions of a small app.

    Args:
        items: Of each document, in their order; then of what was pruned, by name.
        unlisted: Names of actions that no document has, and that were left alone.
        documents: What was applied.
        known: The names that the small app had then.
    """

    app: str
    dry_run: bool
    items: tuple[AppliedEntry, ...]
    unlisted: tuple[str, ...]
    documents: tuple[Document, ...]
    known: References

    @property
    def pruned(self) -> frozenset[str]:
        """The uids of what was pruned."""
        return frozenset(
            each.uid
            for each in self.items
            if each.change is FileChange.PRUNED and each.uid
        )

    def judge(self) -> AppliedFolder:
        """Return what is shown of it, with the first of what may be a mistake."""
        found = find_doubts_of_all(self.known, [each.action for each in self.documents])
        counts = Counter(each.change for each in self.items)
        return AppliedFolder(
            self.app,
            self.dry_run,
            self.items,
            {each: counts[each] for each in FileChange},
            self.unlisted,
            tuple(place_in_file(each, self.documents) for each in found.problems),
            found.may_be_more,
        )


def place_in_file(problem: Problem, documents: Sequence[Document]) -> FileProblem:
    """Return *problem*, whose pointer begins with the number of its document."""
    index, slash, rest = problem.pointer[1:].partition("/")
    document, pointer = documents[int(index)], f"{slash}{rest}"
    where = document.say_where(replace(problem, pointer=pointer))
    placed = replace(problem, pointer=f"{where} {pointer}".rstrip())
    return FileProblem(document.source, pointer, problem.message, problem.hint, placed)
