"""Which operations somebody means who names a small app, an action or a failure."""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa

from actions.lookup import find_filtered
from models.errors import UsageError
from models.operation_state import Mark, OperationState
from models.requests.operations import OperationFilterModel
from operations.list_operations import require_operation
from operations.operation_filter import OperationFilter
from operations.reasons import CausePattern, make_cause


def resolve_filter(
    connection: sa.Connection,
    asked: OperationFilterModel,
    *,
    app: str | None = None,
    cause: CausePattern | None = None,
) -> OperationFilter:
    """
    Return the filter that *asked* means.

    Args:
        app: Uid of the only small app that the caller may see. None: all.
        cause: That of ``same_as``, if it was read before. None: it is read now.

    Raises:
        NotFoundError: There is no such small app, action or operation.
        ConflictError: Several small apps have an action of that name.
        UsageError: ``same_as`` has not failed.
    """
    own = app or asked.app
    uid = find_filtered(connection, app=own, action=asked.action)
    if cause is None and asked.same_as is not None:
        cause = read_cause(connection, asked.same_as, app=app)
    return OperationFilter(
        app=own,
        action_uid=uid,
        states=frozenset(asked.state),
        cause=cause,
        is_retrying=asked.mark is Mark.RETRYING,
        is_uncertain=asked.mark is Mark.UNCERTAIN,
        ids=None if asked.ids is None else frozenset(asked.ids),
        **{name: getattr(asked, name) for name in _SAME},
    )


#: What is asked for as it is looked for.
_SAME = (
    *("queue", "trigger", "reason", "text"),
    *("since", "until", "recorded_since", "recorded_until"),
)


def read_cause(
    connection: sa.Connection, operation_id: UUID, *, app: str | None
) -> CausePattern:
    """
    Return the cause of which an operation failed.

    Args:
        app: Uid of the small app that it must belong to. None: any.

    Raises:
        NotFoundError: There is no such operation.
        UsageError: It has not failed.
    """
    row = require_operation(connection, operation_id, app=app)
    if row.state != OperationState.FAILED:
        raise UsageError(
            f"same_as: operation {operation_id} is {row.state}, and has no cause that"
            " others could share. Name one that failed."
        )
    return make_cause(row.reason, row.error)
