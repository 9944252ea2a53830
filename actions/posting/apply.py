"""
Make the actions of a small app what a set of documents says: a folder in git.

An action is the one that a document names by uid, or else by its name. What two people
apply at the same time is applied one after the other: the second finds what the first
has left, and nothing is done twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.lookup import SYSTEM_APP, fetch_app
from actions.posting.changes import (
    COMPARED,
    CountedChanges,
    ForeseenRuns,
    compare_runs,
    count_changes,
)
from actions.posting.doubts import find_doubts_of_all
from actions.posting.post import Posted, Posting, delete_action, post_actions
from actions.posting.references import References, fetch_references
from actions.posting.refusals import Taken, refuse_repeated
from actions.read_actions import fetch_rows
from actions.read_rules import find_next, find_zone, read_schedule
from actions.small_apps.app_row import lock_app
from models.database.engine import read_clock
from models.database.journal import rolled_back
from models.database.tables import scheduled_actions
from models.door.differences import find_differences
from models.door.documents import ReadContext, action_document, read_action
from models.door.places import Places, place_all
from models.errors import (
    ConflictError,
    InvalidDocumentError,
    NotFoundError,
    Problem,
    UsageError,
)
from models.fields.strict_model import MOST_PROBLEMS
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
    """
    What became of all actions of a small app, and what in their files may be a mistake.

    Args:
        items: Of each document, in their order; then of what was pruned, by name.
        unlisted: Names of actions that no document has, and that were left alone.
        warnings: None before ``judge`` was asked for them.
        documents: What was applied.
        known: The names that the small app had then.
    """

    app: str
    dry_run: bool
    items: tuple[AppliedEntry, ...]
    counts: Mapping[FileChange, int]
    unlisted: tuple[str, ...]
    warnings: tuple[FileProblem, ...]
    more_warnings: bool
    documents: tuple[Document, ...] = field(metadata=ASIDE)
    known: References = field(metadata=ASIDE)

    @property
    def pruned(self) -> frozenset[str]:
        """The uids of what was pruned."""
        gone = (each for each in self.items if each.change is FileChange.PRUNED)
        return frozenset(each.uid for each in gone if each.uid)

    def judge(self) -> AppliedFolder:
        """Return it with the first of its warnings."""
        found = find_doubts_of_all(self.known, [each.action for each in self.documents])
        placed = tuple(place_in_file(each, self.documents) for each in found.problems)
        return replace(self, warnings=placed, more_warnings=found.may_be_more)


def place_in_file(problem: Problem, documents: Sequence[Document]) -> FileProblem:
    """Return *problem*, whose pointer begins with the number of its document."""
    index, slash, rest = problem.pointer[1:].partition("/")
    document, pointer = documents[int(index)], f"{slash}{rest}"
    where = document.say_where(replace(problem, pointer=pointer))
    placed = replace(problem, pointer=f"{where} {pointer}".rstrip())
    return FileProblem(document.source, pointer, problem.message, problem.hint, placed)


_action = scheduled_actions.c

#: Names that a refusal lists.
_LISTED = 5


def read_documents(
    texts: Mapping[str, bytes], reading: ReadContext
) -> tuple[Document, ...]:
    """
    Return the actions that *texts* describe, one each.

    Args:
        texts: JSON objects by the names of their files.

    Raises:
        InvalidDocumentError: With the problems of all files; pointers begin with the
            file, line and column.
    """
    read: list[Document] = []
    problems: list[Problem] = []
    for source, text in texts.items():
        try:
            read.append(Document(source, read_action(text, reading), text))
        except InvalidDocumentError as error:
            problems += place_all(error, source, text)
        if len(problems) >= MOST_PROBLEMS:
            break
    if problems:
        raise InvalidDocumentError(tuple(problems[:MOST_PROBLEMS]))
    return tuple(read)


def apply_actions(
    connection: sa.Connection,
    app: str,
    documents: Sequence[Document],
    how: Posting,
    *,
    prune: bool | Collection[str] = False,
    dry_run: bool = False,
) -> AppliedFolder:
    """
    Create and replace the actions of *app* that differ from *documents*; all or none.

    What does not differ gets no new revision, unless it is in quarantine.

    Args:
        app: Uid of a small app; not the scheduler's own.
        documents: One for each action.
        how: As what differs is posted.
        prune: Whether to delete the actions that no document has; if uids are given,
            other ones are a conflict. Operations that wait are canceled when a worker
            takes them, as after any deletion.
        dry_run: Whether to roll everything back in the end.

    Raises:
        NotFoundError: No such small app.
        UsageError: *app* is the scheduler's own.
        ConflictError: A name or uid is taken, or something else would be pruned than
            *prune* says.
        InvalidDocumentError: As ``post_actions``; pointers begin with the file.
    """
    if app == SYSTEM_APP:
        msg = f"small app {app!r} is the scheduler's own; its actions have no files."
        raise UsageError(msg)
    fetch_app(connection, app)
    with _naming(documents):
        refuse_repeated(
            [each.action for each in documents],
            sources=[each.source for each in documents],
        )
    with rolled_back(connection) if dry_run else nullcontext():
        lock_app(connection, app)  # nobody posts to it meanwhile
        of_app = _action.app == app, _action.deleted_at.is_(None)
        query = sa.select(scheduled_actions).where(*of_app).order_by(_action.name)
        stored = connection.execute(query).all()
        plan = _find_stored(stored, documents)
        claimed = {each.old.uid for each in plan if each.old is not None}
        gone = [row for row in stored if row.uid not in claimed]
        if prune is not False:
            _refuse_others(gone, prune)
            gone = [row for row in gone if _prune(connection, row.uid, how.by)]
        changed = [each for each in plan if each.is_changed]
        _make_room(connection, changed)
        to_post = [each.document for each in changed]
        posted = _post(connection, app, to_post, replace(how, replace=True))
        rows = fetch_rows(connection, [each.uid for each in posted.values()])
        now = read_clock(connection)
    entries = [
        _make_entry(each, posted, rows, now=now, is_stored=not dry_run) for each in plan
    ]
    unlisted = tuple(row.name for row in gone)
    if prune is not False:
        for row in gone:
            runs = _count_changes(row, None, row.uid, now) if dry_run else None
            pruned = (None, FileChange.PRUNED, row.uid, row.name, row.revision + 1)
            entries.append(AppliedEntry(*pruned, runs=runs, zone=find_zone(row)))
        unlisted = ()
    counts = Counter(each.change for each in entries)
    return AppliedFolder(
        app=app,
        dry_run=dry_run,
        items=tuple(entries),
        counts={each: counts[each] for each in FileChange},
        unlisted=unlisted,
        warnings=(),
        more_warnings=False,
        documents=tuple(documents),
        known=fetch_references(connection, app, [each.action for each in documents]),
    )


@dataclass(frozen=True, slots=True)
class _Filed:
    """
    A document, and the action that it is.

    Args:
        old: The row of the action. None: it is to be made.
        pointers: What differs in it.
        is_changed: Whether it is to be stored.
    """

    document: Document
    old: sa.Row[Any] | None
    pointers: tuple[str, ...] = ()
    is_changed: bool = True


def _find_stored(
    stored: Sequence[sa.Row[Any]], documents: Sequence[Document]
) -> list[_Filed]:
    by_uid = {row.uid: row for row in stored}
    by_name = {row.name: row for row in stored}
    named = {each.action.uid for each in documents if each.action.uid}
    plan = []
    for each in documents:
        row = by_uid.get(each.action.uid or "")
        if row is None and each.action.uid is None:
            row = by_name.get(each.action.name)
            # the file of the other says that it has another name now
            row = None if row is not None and row.uid in named else row
        if row is None:
            plan.append(_Filed(each, None))
            continue
        written = {"uid": row.uid, **action_document(each.action)}
        found = find_differences({"uid": row.uid, **row.document}, written)
        pointers = tuple(one.pointer for one in found)
        is_changed = bool(found) or row.quarantined_at is not None
        plan.append(_Filed(each, row, pointers, is_changed))
    return plan


def _refuse_others(
    gone: Sequence[sa.Row[Any]],
    may_prune: bool | Collection[str],  # noqa: FBT001 - True: all of them
) -> None:
    """Refuse to prune what was not there, or had a file, when somebody looked."""
    if isinstance(may_prune, bool):
        return
    others = [row.name for row in gone if row.uid not in may_prune]
    if others:
        listed = ", ".join(map(repr, others[:_LISTED]))
        raise ConflictError(
            f"other actions would be pruned than you have seen: {listed}. Look again"
            " (minutehand actions apply --dry-run)."
        )


def _prune(connection: sa.Connection, uid: str, by: str | None) -> bool:
    """Delete an action; tell whether it was still there."""
    try:
        delete_action(connection, uid, by=by)
    except NotFoundError:
        return False  # somebody else was faster, which is as well
    return True


def _make_room(connection: sa.Connection, changed: Sequence[_Filed]) -> None:
    """Free the names of actions that get another, since others may want them."""
    wanted = {each.document.action.name for each in changed}
    for each in changed:
        row, name = each.old, each.document.action.name
        if row is None or row.name == name or row.name not in wanted:
            continue
        # Nobody sees it: the post that follows gives it its own name.
        connection.execute(
            sa.update(scheduled_actions)
            .where(_action.uid == row.uid)
            .values(name=f"{row.uid} is being renamed")
        )


def _post(
    connection: sa.Connection, app: str, documents: Sequence[Document], how: Posting
) -> dict[str, Posted]:
    """Store *documents*, and return what became of each, by file."""
    actions = [each.action for each in documents]
    if not actions:
        return {}
    taken = Taken(connection, app, actions)
    conflicts = [
        f"{each.say_where(found)}: {found.message}"
        for each in documents
        if (found := taken.find_conflict(each.action, replace=True)) is not None
    ]
    if conflicts:
        raise ConflictError("\n".join(conflicts[:MOST_PROBLEMS]))
    with _naming(documents):
        posted = post_actions(connection, app, actions, how)
    sources = (each.source for each in documents)
    return dict(zip(sources, posted, strict=True))


@contextmanager
def _naming(documents: Sequence[Document]) -> Iterator[None]:
    """Put the files in place of the numbers with which pointers begin."""
    try:
        yield
    except InvalidDocumentError as error:
        placed = (place_in_file(each, documents).placed for each in error.problems)
        raise InvalidDocumentError(tuple(placed)) from None


def _make_entry(
    filed: _Filed,
    posted: Mapping[str, Posted],
    rows: Mapping[str, sa.Row[Any]],
    *,
    now: datetime,
    is_stored: bool,
) -> AppliedEntry:
    source, name, old = filed.document.source, filed.document.action.name, filed.old
    found = posted.get(source)
    if found is None:
        assert old is not None  # else it would have been posted
        return AppliedEntry(source, FileChange.UNCHANGED, old.uid, name, old.revision)
    row = rows[found.uid]
    return AppliedEntry(
        source,
        FileChange.CREATED if found.created else FileChange.CHANGED,
        found.uid if is_stored or not found.created else None,
        name,
        found.revision,
        filed.pointers,
        tuple(find_next(row, count=1)),
        found.superseded,
        None if is_stored else _count_changes(old, row, found.uid, now),
        find_zone(row),
    )


def _count_changes(
    before: sa.Row[Any] | None, after: sa.Row[Any] | None, uid: str, now: datetime
) -> CountedChanges:
    """Compare the runs of the next 30 days, but those of events, which few can tell."""
    old, new = (ForeseenRuns(read_schedule(row)) for row in (before, after))
    return count_changes(compare_runs(old, new, uid, start=now, end=now + COMPARED))
