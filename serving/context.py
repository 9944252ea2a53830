"""
Who asks, and what they may see: handed to every route.

A key of one small app is kept to it here: ``app`` is the condition that each query
gets. What belongs to another app is unknown to it, exactly like what does not exist.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Annotated, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from fastapi import Depends, Request

from actions.posting.edit import Terms
from models.database.engine import Author
from models.door.documents import read_model
from models.errors import DeadlockError
from models.fields.strict_model import DocumentModel
from models.role import Role
from serving.access.callers import Caller, refuse_app
from serving.refusals import find_expected
from serving.services import Services

_Model = TypeVar("_Model", bound=DocumentModel)
_Answer = TypeVar("_Answer")
_Given = ParamSpec("_Given")

#: How often a transaction is begun anew after a deadlock.
_DEADLOCKS = 5


@dataclass(frozen=True, slots=True)
class Context:
    """
    One request of somebody who was let in.

    Args:
        body: What was sent, at most as long as the route takes.
        idempotency_key: Of a POST that may be repeated. None: it was not given.
        last_event_id: Of the last event that was told before anything was read, for
            whoever goes on from there. None: none is known.
    """

    request: Request
    services: Services
    caller: Caller
    request_id: str
    body: bytes = b""
    idempotency_key: str | None = None
    last_event_id: str | None = None

    @property
    def repeatable(self) -> str | None:
        """
        Digest of what a repeat of the request has in common with it.

        The answer of the first one may be unknown, or an error of ours, although its
        work was done: work that is named after this is found again.

        None: there was no Idempotency-Key.
        """
        if self.idempotency_key is None:
            return None
        parts = (self.caller.owner.encode(), self.idempotency_key.encode(), self.body)
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    @property
    def app(self) -> str | None:
        """The only small app that the caller may see. None: all of them."""
        return self.caller.app

    @property
    def tenant(self) -> str:
        """Whose turn it is, of those who ask at the same time: an app, or a caller."""
        return self.caller.owner if self.app is None else f"app {self.app}"

    def share(self) -> asyncio.Semaphore:
        """Return what is entered while a thread works for the tenant."""
        return self.services.shares.of(self.tenant)

    def sign(self, note: str | None = None) -> Terms:
        """Return the terms of the installation, with who posts by them, and why."""
        return replace(self.services.terms, by=self.caller.name, note=note)

    def narrow(self, app: str | None) -> str | None:
        """
        Return the small app that a list is kept to: *app*, or the caller's only one.

        Raises:
            NotFoundError: *app* is none of the caller's.
        """
        if self.app is not None and app not in {None, self.app}:
            refuse_app(app)
        return app or self.app

    def read(self, model: type[_Model], noun: str) -> _Model:
        """
        Return what the body says; *noun* names it in messages.

        Raises:
            InvalidDocumentError: With every problem.
        """
        return read_model(model, self.body, noun=noun)

    @property
    def expected(self) -> str | None:
        """
        The entity tag that the caller has seen, without quotes. None: any.

        Raises:
            PreconditionRequiredError: There is no If-Match.
        """
        return find_expected(self.request.headers)

    @property
    def author(self) -> Author:
        """Whose changes these are, for the record of changes."""
        return self.caller.as_author(self.request_id)

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """Give a connection that only reads."""
        return self.services.reading()

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """Give a connection in one transaction, whose changes are the caller's."""
        return self.services.writing(self.author)

    def fetch(
        self,
        fetch: Callable[Concatenate[sa.Connection, _Given], _Answer],
        *given: _Given.args,
        **named: _Given.kwargs,
    ) -> _Answer:
        """Return what *fetch* reads."""
        with self.reading() as connection:
            return fetch(connection, *given, **named)

    def change(
        self,
        change: Callable[Concatenate[sa.Connection, _Given], _Answer],
        *given: _Given.args,
        **named: _Given.kwargs,
    ) -> _Answer:
        """Return what *change* does in one transaction, as the caller."""
        with self.writing() as connection:
            return change(connection, *given, **named)

    def write_again(self, act: Callable[[sa.Connection], _Answer]) -> _Answer:
        """
        Return what *act* does in such a transaction, again after a deadlock.

        For what many do at once to the same rows. They are locked in an order, but
        others who change them have their own.

        Args:
            act: Does nothing that the end of its transaction would not take back.

        Raises:
            DeadlockError: Some times in a row.
        """
        for _time in range(_DEADLOCKS):
            try:
                return self.change(act)
            except DeadlockError:
                continue  # PostgreSQL waited for a second; the other one is through
        return self.change(act)


@dataclass(frozen=True, slots=True)
class Needs:
    """
    What a route asks of its caller; ``guarding.py`` sees to it.

    Args:
        role: The least.
    """

    role: Role

    # It waits for nothing. But FastAPI would call it in a thread otherwise, and going
    # there and back takes longer than the call.
    async def __call__(self, request: Request) -> Context:
        """
        Return the context, which was made when the caller was let in.

        Raises:
            NotFoundError: The path names a small app that is none of the caller's.
        """
        context: Context = request.state.context
        context.narrow(request.path_params.get("app"))
        return context


Viewer = Annotated[Context, Depends(Needs(Role.VIEWER))]
Operator = Annotated[Context, Depends(Needs(Role.OPERATOR))]
Editor = Annotated[Context, Depends(Needs(Role.EDITOR))]
Admin = Annotated[Context, Depends(Needs(Role.ADMIN))]
