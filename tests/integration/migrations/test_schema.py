"""Migrations make exactly the tables of the code, with names that can be relied on."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from migrations.schema import check_schema, get_schema_revision, migrate
from models.database import tables
from models.database.engine import make_engine
from models.database.tables import metadata
from models.errors import UsageError
from tests.conftest import new_database, show_url
from tests.database import race


def test_migrated_schema_is_that_of_the_code(engine: sa.Engine):
    """Tables, columns, types, defaults, keys and indexes: no more, no less."""
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        differences = compare_metadata(context, metadata)

    assert [] == differences


def test_conditions_of_indexes_are_those_of_the_code(engine: sa.Engine):
    """Alembic does not compare them, and they decide what an index guards."""
    for table in metadata.sorted_tables:
        found = read_conditions(engine, table.name)
        expected = {
            str(index.name): (
                bool(index.unique),
                words(index.dialect_options[engine.dialect.name]["where"]),
            )
            for index in table.indexes
        }
        assert expected == found, table.name


def read_conditions(engine: sa.Engine, table: str) -> dict[str, tuple[bool, str]]:
    """Return of each index whether it is unique, and which rows it has."""
    if engine.dialect.name == "postgresql":
        return {
            str(index["name"]): (
                index["unique"],
                words(index.get("dialect_options", {}).get("postgresql_where")),
            )
            for index in sa.inspect(engine).get_indexes(table)
        }
    # whose indexes of expressions nobody reflects
    query = "select name, sql from sqlite_master where tbl_name = :table and sql like"
    with engine.connect() as connection:
        rows = connection.execute(
            sa.text(f"{query} 'CREATE %INDEX%'"), {"table": table}
        ).all()
    return {
        name: ("UNIQUE INDEX" in sql, words(sql.partition(" WHERE ")[2] or None))
        for name, sql in rows
    }


def test_parameters_of_tables_are_those_of_the_code(postgres_engine: sa.Engine):
    """Alembic does not compare these either: when autovacuum passes."""
    query = "select relname, reloptions from pg_class where relkind = 'r'"
    with postgres_engine.connect() as connection:
        found = {
            name: dict(each.split("=") for each in given)
            for name, given in connection.execute(sa.text(query))
            if given
        }

    assert found == {
        table.name: {key: str(value) for key, value in given.items()}
        for table in metadata.sorted_tables
        if (given := table.dialect_options["postgresql"]["with"])
    }


def words(condition: object) -> str:
    """Return a condition without what PostgreSQL adds when it prints one."""
    text = "" if condition is None else str(condition)
    text = text.replace("::text", "").replace("[]", "")
    text = text.replace("= ANY (ARRAY[", "IN (").replace("])", ")")
    return " ".join(text.replace("(", " ").replace(")", " ").split())


def test_migrating_twice_changes_nothing(unmigrated_url: str):
    engine = make_engine(unmigrated_url)
    assert get_schema_revision(engine) is None
    with pytest.raises(UsageError, match="minutehand migrate"):
        check_schema(engine)

    for _ in range(2):
        migrate(engine)
        check_schema(engine)
    engine.dispose()


def test_database_that_is_not_in_utf8_is_refused(postgres_server_url: str):
    """Such as one of a server that was made without a locale."""
    template = "template0 encoding 'SQL_ASCII' locale 'C'"
    with new_database(postgres_server_url, template) as url:
        engine = make_engine(show_url(url))
        with pytest.raises(UsageError, match="database is in SQL_ASCII"):
            migrate(engine)
        engine.dispose()


def test_migrations_at_the_same_time_take_turns(unmigrated_url: str):
    """Two containers that start together do not fail over each other's tables."""
    engine = make_engine(unmigrated_url)

    race(3, lambda _number: migrate(engine))

    check_schema(engine)
    engine.dispose()


def test_names_follow_the_convention(engine: sa.Engine):
    """A later migration can name what it changes, on either database."""
    inspector = sa.inspect(engine)
    for table in metadata.sorted_tables:
        name = table.name
        assert f"pk_{name}" == inspector.get_pk_constraint(name)["name"]
        for key in inspector.get_foreign_keys(name):
            column, target = key["constrained_columns"][0], key["referred_table"]
            assert f"fk_{name}_{column}_{target}" == key["name"]
        for index in inspector.get_indexes(name):
            prefix = "uq" if index["unique"] else "ix"
            assert str(index["name"]).startswith(f"{prefix}_{name}_")


def test_every_index_says_which_query_it_serves():
    """A comment stands above each one in models/database/tables.py."""
    path = Path(tables.__file__)
    lines = path.read_text().splitlines()
    calls = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"Index", "_partial"}
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ]
    above = {node.args[0].value: lines[node.lineno - 2].strip() for node in calls}  # type: ignore[attr-defined]  # constants, see above
    named = {str(i.name) for table in metadata.sorted_tables for i in table.indexes}

    assert named == set(above)
    assert [] == [name for name, line in above.items() if not line.startswith("# ")]
