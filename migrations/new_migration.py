"""
Write the migration that makes the database what models/database/tables.py says.

For developers: ``make migration m="Keep the colour of a small app"``. It compares the
tables of the code with a scratch database that the migrations made, and writes what
is missing so that PostgreSQL and SQLite both take it. It is a draft: what only a person
can judge is listed beside it.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import produce_migrations, render_python_code
from alembic.autogenerate.api import AutogenContext
from alembic.operations import ops
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from migrations.schema import make_config
from migrations.schema_revisions import VERSIONS, get_known_revisions
from models.database.engine import Identifier, Json, UtcDateTime, make_engine, writing
from models.database.tables import metadata
from models.errors import UsageError

#: Tables that may have millions of rows: see live_indexes.py.
LARGE = frozenset({"operations", "operation_steps", "deliveries"})

_OURS: dict[int, str] = {
    id(UtcDateTime): "UtcDateTime",
    id(Identifier): "Identifier",
    id(Json): "Json",
}


@dataclass(frozen=True, slots=True)
class Draft:
    """
    A migration that was written.

    Args:
        path: Of its file, formatted.
        review: What a person should look at, a sentence each.
    """

    path: Path
    review: Sequence[str]


def write_migration(
    message: str, *, target: sa.MetaData = metadata, versions: Path = VERSIONS
) -> Draft:
    """
    Write the next migration into *versions*, and apply it to nothing.

    Args:
        message: What it does, as a sentence without its full stop; names the file.
        target: What the tables should be; tests give others than those of the code.
        versions: Where the migrations are.

    Raises:
        UsageError: There is no message, or nothing to migrate. Says what to do.
    """
    message = message.strip().removesuffix(".")
    if not message:
        msg = 'say what the migration does: make migration m="Keep the colour of ..."'
        raise UsageError(msg)
    if '"""' in message or "\\" in message or not message.isprintable():
        raise UsageError(
            "the message becomes a docstring: no backslash, line break or three quotes"
        )
    newest = get_known_revisions(versions)[-1]
    changes = [*_flatten(_compare(target, versions))]
    if not changes:
        raise UsageError(
            f"the migrations up to {newest} make all that models/database/tables.py"
            " says, so there is nothing to write. Change the tables first; a migration"
            " that only changes rows is written by hand."
        )
    revision = f"{int(newest) + 1:04}"
    is_harmless = all(map(_is_harmless, changes))
    config = make_config(versions=versions)
    config.cmd_opts = Namespace(quiet=True)  # the caller says what was written
    written = ScriptDirectory.from_config(config).generate_revision(
        revision,
        message,
        live_columns=[*filter(None, map(_render_live_column, changes))],
        live_indexes=[*filter(None, map(_render_live_index, changes))],
        compatible_from=_read_compatible(versions) if is_harmless else revision,
        upgrades=_render([each for each in changes if not _is_live(each)]),
    )
    assert written is not None  # it is, unless asked only for the text
    path = Path(written.path)
    # The template imports all that may be needed; the linter drops what is not.
    ruff = (sys.executable, "-m", "ruff")
    subprocess.run([*ruff, "check", "--quiet", "--fix-only", path], check=True)
    subprocess.run([*ruff, "format", "--quiet", path], check=True)
    return Draft(path, [*_find_doubts(changes), *_find_reminders(path, changes)])


def _compare(target: sa.MetaData, versions: Path) -> Sequence[ops.MigrateOperation]:
    """Find what a scratch database lacks that the migrations have made."""
    with TemporaryDirectory() as folder:
        engine = make_engine(f"sqlite:///{Path(folder) / 'scratch.sqlite3'}")
        with writing(engine) as connection:
            command.upgrade(make_config(connection, versions=versions), "head")
        with engine.connect() as connection:
            compared = MigrationContext.configure(
                connection, opts={"compare_type": True, "compare_server_default": True}
            )
            found = produce_migrations(compared, target).upgrade_ops
        engine.dispose()
    assert found is not None  # it may be empty
    return found.ops


def _read_compatible(versions: Path) -> str:
    """Return whose programs the newest migration lets go on."""
    *_, newest = sorted(versions.glob("[0-9]*_*.py"))
    return str(run_path(str(newest))["compatible_from"])


def _flatten(found: Sequence[ops.MigrateOperation]) -> Iterator[ops.MigrateOperation]:
    """Take changes out of the tables they are grouped by; their order is kept."""
    for each in found:
        if isinstance(each, ops.OpContainer):
            yield from _flatten(each.ops)
        else:
            yield each


def _is_harmless(change: ops.MigrateOperation) -> bool:
    """Tell whether programs that know nothing of *change* go on working."""
    match change:
        case ops.CreateTableOp():
            return True
        case ops.CreateIndexOp():
            return not change.unique
        case ops.AddColumnOp():
            return _has_value_for_old_rows(change.column)
        case _:
            return False


def _has_value_for_old_rows(column: sa.Column[Any]) -> bool:
    return bool(column.nullable) or column.server_default is not None


def _is_live(change: ops.MigrateOperation) -> bool:
    """Tell whether *change* is made before the transaction: see live_indexes.py."""
    return bool(_render_live_column(change) or _render_live_index(change))


def _render_live_column(change: ops.MigrateOperation) -> str | None:
    """Write a column that can be added while everybody goes on; None: another one."""
    if not isinstance(change, ops.AddColumnOp) or change.table_name not in LARGE:
        return None
    column = change.column
    if not _has_value_for_old_rows(column) or column.foreign_keys:
        return None
    arguments = [repr(change.table_name), repr(column.name), _write_type(column.type)]
    if (default := _write_default(column)) is not None:
        if column.nullable:
            return None  # LiveColumn takes a default for what must not be null
        arguments.append(f"default={default!r}")
    return f"LiveColumn({', '.join(arguments)})"


def _write_default(column: sa.Column[Any]) -> str | None:
    """Write the server's default of *column* as SQL."""
    if column.server_default is None:
        return None
    default = getattr(column.server_default, "arg", None)
    if isinstance(default, str) and isinstance(column.type, sa.Numeric | sa.Integer):
        return default
    expression = sa.literal(default) if isinstance(default, str) else default
    assert isinstance(
        expression, sa.ClauseElement
    )  # models/database/tables.py has no others
    return str(expression.compile(compile_kwargs={"literal_binds": True}))


def _write_type(kind: sa.types.TypeEngine[Any]) -> str:
    return _OURS.get(id(kind)) or f"sa.{kind!r}"


def _render_live_index(change: ops.MigrateOperation) -> str | None:
    """Write an index that can be made while everybody goes on; None: another one."""
    if not isinstance(change, ops.CreateIndexOp) or change.table_name not in LARGE:
        return None
    index = change.to_index()
    where, on_sqlite = (
        index.dialect_options[name]["where"] for name in ("postgresql", "sqlite")
    )
    names = [each.name for each in index.expressions if isinstance(each, sa.Column)]
    if index.unique or len(index.expressions) != len(names):
        return None
    arguments = [index.name, change.table_name, ", ".join(names)]
    if where is not None:
        arguments.append(str(where))
        if str(on_sqlite) != str(where):
            arguments.append(str(on_sqlite))
    return f"LiveIndex({', '.join(map(repr, arguments))})"


def _render(changes: list[ops.MigrateOperation]) -> str:
    """Write the body of ``upgrade``, but for what is made ahead; maybe nothing."""
    if not changes:
        return ""
    text = render_python_code(ops.UpgradeOps(changes), render_item=_render_item)
    lines = text.splitlines(keepends=True)
    # It asks between two comments to be adjusted, which is what ``review`` is for.
    kept = [line for line in lines if not line.lstrip().startswith("# ###")]
    return "".join(kept).strip()


def _render_item(
    kind: str, item: Any, _autogenerate: AutogenContext
) -> str | Literal[False]:
    """Write our types by name, so that one migration serves both databases."""
    return _OURS.get(id(item), False) if kind == "type" else False


def _find_doubts(changes: Sequence[ops.MigrateOperation]) -> Iterator[str]:
    """Find what will not work, or keep others waiting, as it stands."""
    for change in changes:
        table = getattr(change, "table_name", "")
        match change:
            case ops.AddColumnOp() if not _has_value_for_old_rows(change.column):
                yield (
                    f"{table}.{change.column.name} has no value for the rows that are"
                    " there: give it a server_default, or let it be null"
                )
            case ops.AddColumnOp() if table in LARGE and not _is_live(change):
                yield (
                    f"{table}.{change.column.name} is not a LiveColumn, since it refers"
                    " to another table, or may be null and has a default"
                )
            case ops.CreateIndexOp() if table in LARGE and not _is_live(change):
                yield (
                    f"{change.index_name} keeps all writers of {table} out while it is"
                    " made: a LiveIndex has one column and a condition"
                )
            case ops.DropColumnOp() | ops.DropTableOp():
                yield (
                    f"{table} loses something: drop only what the version before does"
                    " not use any more; if this is a new name, write a rename instead"
                )
            case ops.AlterColumnOp():
                yield (
                    f"{table}.{change.column_name} is altered, which SQLite cannot do:"
                    " write it with op.batch_alter_table"
                )


def _find_reminders(
    path: Path, changes: Sequence[ops.MigrateOperation]
) -> Iterator[str]:
    """Find what a person has to decide or to write, however good the draft."""
    verdict = (
        "only adds what old programs may leave out"
        if all(map(_is_harmless, changes))
        else "takes or demands something that old programs do not know"
    )
    yield (
        f"compatible_from in {path.name}: this {verdict}; is that so"
        " (docs/upgrades.md, 'Write a migration')?"
    )
    if any(isinstance(each, ops.CreateIndexOp) for each in changes):
        yield "the comment above each index says which query it serves"


def main(arguments: Sequence[str]) -> int:
    """
    Write a migration whose message is the one of *arguments*.

    Returns:
        0, or 2 if it was not called rightly, or has nothing to do.
    """
    try:
        draft = write_migration(" ".join(arguments))
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(
        f"{draft.path.relative_to(VERSIONS.parents[1])}: a draft. Please look:\n"
    )
    sys.stdout.writelines(f"- {each}\n" for each in draft.review)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
