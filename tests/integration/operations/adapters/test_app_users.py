"""Letterheads from both databases; what workers may import."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from models.database.tables import small_apps
from models.fields.zone import load_zone
from operations.adapters.app_users import RealDirectory
from operations.mail.message import Letterhead, MailingApp
from tests.database import execute
from tests.scheduling import add_app

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)


def test_app_has_what_it_writes_on_its_mails(engine: sa.Engine):
    """One that names no zone has that of the installation."""
    add_app(engine)
    mail = {"from_name": "S", "reply_to": "r@x.org", "locale": "fr"}
    execute(engine, sa.update(small_apps).values(mail=mail))

    app = RealDirectory(engine, timezone="Asia/Tokyo").get_app("app")

    letterhead = Letterhead(name="S", reply_to="r@x.org")
    assert MailingApp("app", load_zone("Asia/Tokyo"), "fr", letterhead) == app


def test_importing_the_steps_does_not_import_polars():
    """Polars in the parent of the worker processes would hang its forked children."""
    modules = ["operations.steps", "operations.running.attempt"] + [
        ".".join(path.with_suffix("").parts)
        for path in Path("operations/adapters").rglob("[a-z]*.py")
    ]
    program = f"import sys, {', '.join(modules)}; print('polars' in sys.modules)"

    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )

    assert "False" == answer.stdout.strip()
