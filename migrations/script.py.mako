"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.live_indexes import LiveColumn, LiveIndex
from models.database.engine import Identifier, Json, UtcDateTime

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}

#: The oldest schema whose programs go on working after this.
compatible_from = ${repr(compatible_from)}
% if live_columns:

#: Of tables that all use: see migrations/live_indexes.py.
LIVE_COLUMNS = (
% for column in live_columns:
    ${column},
% endfor
)
% endif
% if live_indexes:

#: Of tables that may be large: see migrations/live_indexes.py.
LIVE_INDEXES = (
% for index in live_indexes:
    ${index},
% endfor
)
% endif


def upgrade() -> None:
% if live_columns:
    for column in LIVE_COLUMNS:
        column.create()
% endif
% if live_indexes:
    for index in LIVE_INDEXES:
        index.create()
% endif
% if upgrades:
    ${upgrades}
% endif
