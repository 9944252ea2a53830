"""Sign what tasks of users' own are sent with, instead of keeping a row for each."""

from __future__ import annotations

from secrets import token_hex

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

#: The oldest schema whose programs go on working after this: it drops a table.
compatible_from = "0010"


def upgrade() -> None:
    """Make the secret, and drop what is no longer waited for."""
    op.add_column("installation", sa.Column("secret", sa.Text(), nullable=True))
    op.execute(
        sa.text("UPDATE installation SET secret = :secret").bindparams(
            secret=token_hex(32)
        )
    )
    with op.batch_alter_table("installation") as table:
        table.alter_column("secret", nullable=False)
    op.drop_table("task_waits")
