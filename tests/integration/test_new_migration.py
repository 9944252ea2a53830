"""``make migration``: what is missing is written once, for both databases."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from migrations.new_migration import main, write_migration
from migrations.schema import make_config
from migrations.schema_revisions import VERSIONS, get_newest_revision
from models.database.engine import UtcDateTime, make_engine, writing
from models.database.tables import metadata
from models.errors import UsageError

NEXT = f"{int(get_newest_revision()) + 1:04}"


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    """Give the migrations that there are, in a folder that a test may write to."""
    folder = tmp_path / "versions"
    shutil.copytree(VERSIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def target() -> sa.MetaData:
    """Give a copy of the tables of the code, for a test to change."""
    copy = sa.MetaData(naming_convention=metadata.naming_convention)
    for table in metadata.sorted_tables:
        table.to_metadata(copy)
    return copy


@pytest.fixture
def unmigrated(unmigrated_url: str) -> Iterator[sa.Engine]:
    engine = make_engine(unmigrated_url)
    yield engine
    engine.dispose()


def find_differences(engine: sa.Engine, versions: Path, target: sa.MetaData) -> object:
    """Apply all of *versions*, and find what *target* says beyond that."""
    with writing(engine) as connection:
        command.upgrade(make_config(connection, versions=versions), "head")
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        return compare_metadata(context, target)


def test_what_is_missing_is_made_on_both_databases(
    unmigrated: sa.Engine, versions: Path, target: sa.MetaData
):
    """
    A column, a table with its keys, our types and the condition of its index; and of a
    large table what is added as live, with its defaults, while everybody goes on: so
    compatible_from stays that of the migration before.
    """
    target.tables["small_apps"].append_column(sa.Column("colour", sa.Text))
    given = sa.text("given_at IS NOT NULL")
    sa.Table(
        "badges",
        target,
        sa.Column("app", sa.ForeignKey("small_apps.uid"), primary_key=True),
        sa.Column("given_at", UtcDateTime, nullable=False),
        sa.Index(
            "ix_badges_given_at", "given_at", postgresql_where=given, sqlite_where=given
        ),
    )
    large = target.tables["operations"]
    for name, kind, default in (("weight", sa.Integer, "1"), ("shade", sa.Text, "x")):
        large.append_column(
            sa.Column(name, kind, nullable=False, server_default=default)
        )
    index = ("ix_operations_weight", large.c.weight)
    heavy = sa.text("weight > 1")
    sa.Index(*index, postgresql_where=heavy, sqlite_where=heavy)

    draft = write_migration("Give badges", target=target, versions=versions)

    assert versions / f"{NEXT}_give_badges.py" == draft.path
    text = draft.path.read_text()
    (newest,) = VERSIONS.glob(f"{get_newest_revision()}_*.py")
    (line,) = re.findall("^compatible_from = .*", newest.read_text(), re.MULTILINE)
    assert line in text.splitlines()
    assert "UtcDateTime" in text
    assert 'LiveColumn("operations", "weight", sa.Integer(), default="1")' in text
    assert '"ix_operations_weight", "operations", "weight", "weight > 1"' in text
    assert [] == find_differences(unmigrated, versions, target)
    (index_made,) = sa.inspect(unmigrated).get_indexes("badges")
    option = f"{unmigrated.dialect.name}_where"
    assert "given_at IS NOT NULL" in str(index_made["dialect_options"][option])
    columns = sa.inspect(unmigrated).get_columns("operations")
    assert {"1", "'x'"} == {
        str(column["default"]).removesuffix("::text")
        for column in columns
        if column["name"] in {"weight", "shade"}
    }


def test_what_demands_something_stops_the_programs_before(
    versions: Path, target: sa.MetaData
):
    """A column that old programs do not fill makes it its own oldest schema."""
    target.tables["small_apps"].append_column(
        sa.Column("colour", sa.Text, nullable=False)
    )

    draft = write_migration("Demand a colour", target=target, versions=versions)

    assert f'compatible_from = "{NEXT}"' in draft.path.read_text()
    assert any("small_apps.colour has no value for" in each for each in draft.review)


def test_an_index_that_locks_a_large_table_is_named(
    versions: Path, target: sa.MetaData
):
    """A unique one cannot be live, so whoever reviews is told."""
    operations = target.tables["operations"]
    index = ("ix_operations_app_worker", operations.c.app, operations.c.worker)
    sa.Index(*index, unique=True)

    draft = write_migration("Find by worker", target=target, versions=versions)

    assert any("ix_operations_app_worker keeps all writers" in t for t in draft.review)


def test_a_column_that_goes_is_asked_about(versions: Path, target: sa.MetaData):
    """It may be a rename, and drops take two versions."""
    table = target.tables["small_apps"]
    renamed = sa.MetaData(naming_convention=target.naming_convention)
    for each in target.sorted_tables:
        if each is not table:
            each.to_metadata(renamed)
    kept = [column for column in table.columns if column.name != "pause_note"]
    sa.Table("small_apps", renamed, *(column._copy() for column in kept))

    draft = write_migration("Forget notes", target=renamed, versions=versions)

    assert any("small_apps loses something" in each for each in draft.review)


def test_the_code_as_it_is_needs_no_migration(versions: Path):
    """There is nothing to write, and no file is left."""
    before = {*versions.glob("*.py")}
    with pytest.raises(UsageError, match=r"nothing to write"):
        write_migration("Nothing", versions=versions)

    assert before == {*versions.glob("*.py")}


@pytest.mark.parametrize("message", ['"""', "a\\b", "two\nlines"])
def test_a_message_that_breaks_its_docstring_is_refused(
    message: str, versions: Path, target: sa.MetaData
):
    """Before a file is written that nobody can import."""
    target.tables["small_apps"].append_column(sa.Column("colour", sa.Text))

    with pytest.raises(UsageError, match="docstring"):
        write_migration(message, target=target, versions=versions)

    assert [] == [*versions.glob(f"{NEXT}_*")]


def test_a_refusal_is_an_exit_code_and_a_line(capsys: pytest.CaptureFixture[str]):
    """``make`` stops there, and says what is wrong."""
    assert 2 == main([])

    assert "make migration m=" in capsys.readouterr().err
