"""Say who writes mails, and what data mean."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from models.database.engine import Json

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

#: The oldest schema whose programs go on working after this.
compatible_from = "0001"


def upgrade() -> None:
    op.add_column("domains", sa.Column("labels", Json, nullable=True))
    op.add_column("domains", sa.Column("summarized", Json, nullable=True))
    op.add_column("small_apps", sa.Column("mail", Json, nullable=True))
