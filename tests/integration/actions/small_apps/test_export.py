"""The exported document of a small app is the one that makes it."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from models.database.tables import small_apps
from models.errors import NotFoundError
from tests.database import fetch_rows, note_statements
from tests.integration.actions.small_apps.shop import WHOLE, apply, export


def test_applying_the_export_changes_nothing(engine: sa.Engine):
    apply(engine, WHOLE)
    document = export(engine)

    applied = apply(engine, document)

    assert set(WHOLE) == set(document)
    assert {} == {name: each for name, each in applied.parts.items() if each}
    assert () == applied.settings
    assert 1 == applied.revision
    assert document == export(engine)


def test_export_makes_the_same_app_elsewhere(engine: sa.Engine):
    apply(engine, WHOLE)
    copy = {**export(engine), "uid": "copy"}

    apply(engine, copy)

    assert copy == export(engine, "copy")


def test_documents_that_are_live_are_not_read(engine: sa.Engine):
    """They may be as large as what is staged, and nobody is shown them here."""
    apply(engine, WHOLE)
    asked = note_statements(engine)

    export(engine)

    assert any("app_documents.staged" in each for each in asked)
    assert not [each for each in asked if "app_documents.live" in each]


def test_bare_app_is_exported_with_empty_parts(engine: sa.Engine):
    """What it lacks is null or empty, and stays so when it is applied."""
    apply(engine, {})
    document = export(engine)

    assert {
        "uid": "shop",
        "name": "shop",
        "timezone": None,
        "notices": None,
        "mail": None,
        "users": [],
        "domains": [],
        "templates": {},
        "documents": {},
        "holidays": {},
    } == document
    assert 1 == apply(engine, document).revision


def test_folder_of_the_operator_is_not_exported(engine: sa.Engine, tmp_path: Path):
    """Where files lie is no part of what a tenant writes."""
    apply(engine, {}, folder=tmp_path)

    assert str(tmp_path) not in str(export(engine))
    folder = fetch_rows(engine, sa.select(small_apps.c.source_folder)).scalar_one()
    assert str(tmp_path) == folder


def test_unknown_app_has_no_document(engine: sa.Engine):
    with pytest.raises(NotFoundError):
        export(engine)
