"""The filters that several lists have: a small app, and a period."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Query

from models.fields.field_types import Instant
from serving.context import Viewer


def _narrow(
    context: Viewer,
    app: Annotated[str | None, Query(description="Uid of a small app.")] = None,
) -> str | None:
    return context.narrow(app)


#: The only small app that is meant, within what the caller may see. None: all.
OnlyApp = Annotated[str | None, Depends(_narrow)]


@dataclass(frozen=True, slots=True)
class Period:
    """From *since*, inclusive, until *until*, exclusive; None: without that end."""

    since: datetime | None
    until: datetime | None


def _read_period(
    since: Annotated[
        Instant | None, Query(alias="from", description="Inclusive.")
    ] = None,
    until: Annotated[Instant | None, Query(description="Exclusive.")] = None,
) -> Period:
    return Period(since, until)


Within = Annotated[Period, Depends(_read_period)]
