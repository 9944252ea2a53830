"""
Schedules from code: post, preview and run actions from a program of your own.

What the command line does, with the same rules, messages and record of changes, given
the URL of a database. Nothing is read from the environment, nothing is kept between two
objects, and neither a broker nor Celery is needed: a run is recorded, and the leader
sends it. docs/code.md has the calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import sqlalchemy as sa

from actions.lookup import fetch_app, find_action
from actions.posting.edit import Terms
from actions.posting.foretell import PostedJson, post_with_outcome
from actions.posting.post import delete_action
from dispatch.manual_runs import find_runnable, run_now
from migrations.schema_revisions import explaining_schema
from models.database.engine import (
    DEFAULT_TIMEOUT,
    Author,
    make_engine,
    reading,
    writing,
)
from models.door.documents import read_action
from models.errors import (
    ConflictError,
    InvalidDocumentError,
    MinutehandError,
    NotFoundError,
    UnreachableError,
    UsageError,
)
from models.fields.task_rules import TaskRules
from models.fields.zone import load_zone
from models.operation_state import OperationState
from operations.state import wait_for_state
from overview.previews.new import Asked, FullPreviewJson, preview_text

__all__ = [
    "ConflictError",
    "InvalidDocumentError",
    "MinutehandError",
    "NotFoundError",
    "Schedules",
    "Terms",
    "UnreachableError",
    "UsageError",
]

#: An action: an object as ``json.loads`` returns it, or its JSON.
Document = Mapping[str, Any] | str | bytes

#: Occurrences that the answer to a post has, as that of the command line.
_SHOWN = 5

#: What an installation without settings says: tasks go anywhere but to our own queues.
_TERMS = Terms(task_rules=TaskRules(own_prefix="minutehand"))


class Schedules:
    """
    The scheduled actions of one installation; use it in a ``with`` statement.

    Connects when it is first asked. It may be shared by threads; a process that forks,
    such as a Celery worker, makes its own in each child.
    """

    def __init__(
        self,
        database_url: str,
        *,
        by: str,
        terms: Terms = _TERMS,
        timeout: timedelta = DEFAULT_TIMEOUT,
    ) -> None:
        """
        Remember where the installation is; nothing is connected yet.

        Args:
            database_url: ``postgresql://user:password@host/name`` or
                ``sqlite:///path``, as ``MINUTEHAND_DATABASE_URL``; it was migrated.

            by: Who changes things, for revisions and the record of changes; such as
                ``shop@web-1``.

            terms: What the settings of the installation say: the zone of rules that
                name none in apps that have none, where ``run_task`` may send tasks, and
                how late a due date may be.

            timeout: The most that connecting may take, and any statement.

        Raises:
            UsageError: *database_url* is not such a URL.
        """
        self._engine = make_engine(database_url, timeout=timeout, pool_size=1)
        self._author = Author(by)
        self._terms = terms

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close its connections."""
        self.close()

    def close(self) -> None:
        """Close its connections; the next call would open others."""
        self._engine.dispose()

    def post(
        self,
        app: str,
        document: Document,
        *,
        replace: bool = False,
        note: str | None = None,
    ) -> PostedJson:
        """
        Store an action; it takes effect now, as with ``minutehand actions post``.

        Args:
            app: Uid of a small app.

            document: The action.

            replace: Whether to replace an action of the same uid or name.

            note: Why; kept with the revision.

        Returns:
            What ``actions post --json`` prints: ``uid``, ``revision``, ``next``,
            ``warnings``, ...; instants are aware UTC.

        Raises:
            InvalidDocumentError: It was refused; ``problems`` has pointer, message and
                hint of each thing that is wrong.

            NotFoundError: No such small app.

            ConflictError: The name or uid is taken.

            UnreachableError: The database is away, or too slow.
        """
        text = _write(document)
        with self._reading() as connection:
            zone = fetch_app(connection, app).timezone or self._terms.timezone
        action = read_action(
            text, default_timezone=zone, task_rules=self._terms.task_rules
        )
        with self._writing() as connection:
            outcome = post_with_outcome(
                connection,
                app,
                action,
                replace=replace,
                lookback=self._terms.lookback,
                by=self._author.name,
                note=note,
            )
        return outcome.as_json_with_warnings(count=_SHOWN)

    def preview(
        self, document: Document, *, app: str | None = None, count: int = 10
    ) -> FullPreviewJson:
        """
        Return when an action would run, and what a post would refuse or warn of.

        Args:
            document: The action, or an object with its ``when`` alone.

            app: Uid of the small app whose zone, holidays and names count. None: none.

            count: The most occurrences, up to 1,000.

        Raises:
            InvalidDocumentError, NotFoundError, UnreachableError: As ``post``.
        """
        asked = Asked(load_zone(self._terms.timezone), count=count)
        text = _write(document)
        with self._reading() as connection:
            found = preview_text(connection, app, text, terms=self._terms, asked=asked)
        return found.as_json()

    def run(
        self,
        action: str,
        *,
        app: str | None = None,
        key: str | None = None,
        user: str | None = None,
        note: str | None = None,
    ) -> UUID:
        """
        Record a run of an action, which the leader sends within a second.

        Args:
            action: Its uid or name. Paused and inactive ones run, too.

            app: Uid of its small app, if several have an action of that name.

            key: Makes the call repeatable: the same key is the same run.

            user: Id of the user who triggers it; for event-driven actions, which
                without one run for all their recipients.

            note: Why; kept with the operation.

        Returns:
            The id of the operation, also of its Celery task.

        Raises:
            NotFoundError: No such action, or its app has no such user.

            ConflictError: A run is under way, and its ``overlap`` is skip.

            UnreachableError: As ``post``.
        """
        with self._reading() as connection:
            found = find_runnable(connection, action, app=app, user_id=user)
        return run_now(
            self._engine,
            found.uid,
            key=key,
            user_id=user,
            note=note,
            author=self._author,
        )

    def wait(
        self, operation_id: UUID | str, *, timeout: timedelta
    ) -> OperationState | None:
        """
        Wait until an operation is final, and return its state.

        Args:
            operation_id: As ``run`` returned it.

            timeout: How long at most; zero only looks.

        Returns:
            The state at the end: ``succeeded``, or still ``running`` after *timeout*.
            None: there is no such operation.

        Raises:
            UnreachableError: As ``post``.
        """
        return wait_for_state(self._engine, operation_id, timeout=timeout)

    def delete(
        self, action: str, *, app: str | None = None, note: str | None = None
    ) -> None:
        """
        Delete an action; its history is kept, and its uid stays taken.

        Raises:
            NotFoundError: There is no such action, or it was deleted before.

            UnreachableError: As ``post``.
        """
        with self._writing() as connection:
            uid = find_action(connection, action, app=app).uid
            delete_action(connection, uid, by=self._author.name, note=note)

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with explaining_schema(self._engine), reading(self._engine) as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with (
            explaining_schema(self._engine),
            writing(self._engine, author=self._author) as connection,
        ):
            yield connection


def _write(document: Document) -> str | bytes:
    """Return the JSON of *document*, so that an object is read as any other text."""
    return document if isinstance(document, str | bytes) else json.dumps(document)
