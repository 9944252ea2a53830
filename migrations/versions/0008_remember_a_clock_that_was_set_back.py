"""Remember a clock that was set back, and what has followed it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from models.database.engine import UtcDateTime

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

#: The oldest schema whose programs go on working after this.
compatible_from = "0001"


def upgrade() -> None:
    op.add_column("leases", sa.Column("set_back_from", UtcDateTime, nullable=True))
    op.add_column("leases", sa.Column("set_back_to", UtcDateTime, nullable=True))
    op.add_column("leases", sa.Column("recomputed_until", sa.Text, nullable=True))
