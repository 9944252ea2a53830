"""The rules of the repository that no linter knows."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGES = (
    *("actions", "api", "celery_app", "cli", "dispatch"),
    *("migrations", "models", "operations", "overview", "serving", "web"),
)
FILES = ("scheduler_server.py", "settings.py", "telemetry.py", "tracing.py")
SOURCES = sorted(
    [
        *(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")),
        *(ROOT / name for name in FILES if (ROOT / name).exists()),
    ]
)
TESTS = sorted((ROOT / "tests").rglob("*.py"))
EXAMPLES = sorted((ROOT / "docs").rglob("examples/*"))


def name_of(path: Path) -> str:
    """Return *path* as seen from the root."""
    return path.relative_to(ROOT).as_posix()


#: Neither clock, environment, database, broker, network nor log (CONTRIBUTING).
PURE = (
    "actions/importing/origins/",
    "actions/importing/shadow.py",
    "actions/occurrences.py",
    "actions/tally.py",
    "actions/when/",
    "actions/previews/",
    *sorted(
        name_of(path) + "/" * path.is_dir()
        for path in (ROOT / "models").iterdir()
        if path.name not in {"__init__.py", "__pycache__", "database"}
    ),
    "operations/recipients.py",
)

CLOCKS = {
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
    *("time.time", "time.monotonic", "time.perf_counter", "time.sleep"),
}
ENVIRONMENT = {"os.environ", "os.getenv", "os.environb", "os.putenv"}
VAGUE_NAMES = {
    *("base", "common", "helper", "helpers", "manager", "misc", "util", "utils")
}

#: One bad action must not stop the tick; an operation must reach a final state; no
#: broker of somebody's may stop the tasks or the answers of the others.
MAY_CATCH_ALL = {
    "actions/tick.py",
    "celery_app/answer_reader.py",
    "celery_app/couriers.py",
    "celery_app/tasks.py",
}

#: Celery, its libraries and its brokers; and what is built on these.
OF_CELERY = {"amqp", "billiard", "celery", "celery_app", "kombu", "redis"}

#: What opens a transaction, and what is done inside one.
TRANSACTIONS = {f"models.database.engine.{name}" for name in ("reading", "writing")}
STATEMENTS = {"execute", "scalar", "scalars", "begin", "begin_nested", "connect"}

#: Who may do nothing with the database but hand it on.
FACES = ("api", "cli", "serving", "web")

#: Whoever asks gets a connection from these.
HAND_CONNECTIONS_ON = {"cli/connection.py", "serving/services.py"}

TABLE_PARTS = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)

LONGEST_MODULE = 500

#: Lists, which are read by looking something up, and not split by length.
LISTS = {"models/database/tables.py", "settings.py", "telemetry.py"}
LONGEST_FUNCTION = 60


@cache
def parse(path: Path) -> ast.Module:
    """Parse a file once."""
    return ast.parse(path.read_text())


@cache
def walk(path: Path) -> list[ast.AST]:
    """Return all that is in a file."""
    return [*ast.walk(parse(path))]


def find_dotted(path: Path) -> Iterator[tuple[int, str]]:
    """Find every ``a.b`` of a file, with its line."""
    for node in walk(path):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.lineno, f"{node.value.id}.{node.attr}"


@cache
def find_imports(path: Path) -> set[str]:
    """Return the top-level names that a file imports."""
    found: set[str] = set()
    for node in walk(path):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def count_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function, but for its docstring."""
    first, *_ = function.body
    docstring = 0
    if ast.get_docstring(function) is not None:
        docstring = (first.end_lineno or first.lineno) - first.lineno + 1
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


@pytest.fixture(scope="module")
def pyproject() -> dict[str, dict[str, dict[str, list[str]]]]:
    """Give pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_only_settings_reads_the_environment() -> None:
    """A setting that is read elsewhere is neither checked nor documented."""
    readers = {
        name_of(path)
        for path in SOURCES
        for _line, dotted in find_dotted(path)
        if dotted in ENVIRONMENT
    }

    assert readers == {"settings.py"}


def test_pure_core_has_no_clock() -> None:
    """Time goes in as an argument; import-linter cannot see ``datetime.now``."""
    found = [
        f"{name_of(path)}:{line}: {dotted}"
        for path in SOURCES
        if name_of(path).startswith(PURE)
        for line, dotted in find_dotted(path)
        if dotted in CLOCKS
    ]

    assert found == []


def test_import_contracts_guard_the_whole_pure_core(
    pyproject: dict[str, dict[str, dict[str, list[dict[str, list[str]]]]]],
) -> None:
    """Every pure module that exists is named in pyproject.toml."""
    contracts = pyproject["tool"]["importlinter"]["contracts"]
    (pure,) = (
        contract["source_modules"]
        for contract in contracts
        if "The pure core" in contract["name"]
    )
    modules = {
        prefix.removesuffix(".py").rstrip("/").replace("/", ".") for prefix in PURE
    }

    assert modules == set(pure)


def test_settings_and_telemetry_import_nothing_above_models() -> None:
    """import-linter does not look into single files."""
    ours = {*PACKAGES, "settings", "telemetry", "tracing", "scheduler_server"}

    assert find_imports(ROOT / "settings.py") & ours == {"models"}
    assert find_imports(ROOT / "telemetry.py") & ours <= {"models"}
    assert find_imports(ROOT / "tracing.py") & ours == {"telemetry"}


def test_celery_app_is_about_celery() -> None:
    """What needs neither Celery nor a broker has its room below."""
    others = {
        name_of(path)
        for path in SOURCES
        if path.is_relative_to(ROOT / "celery_app")
        and not find_imports(path) & OF_CELERY
    }

    # a channel of py-amqp or kombu is handed in
    assert others <= {"celery_app/broker_link.py", "celery_app/task_answers.py"}


def test_only_the_command_line_imports_the_scheduler() -> None:
    """scheduler_server.py is an entry point, at the top of all."""
    importers = {
        name_of(path).partition("/")[0]
        for path in SOURCES
        if "scheduler_server" in find_imports(path)
    }

    assert importers <= {"cli"}


def find_sql(path: Path) -> Iterator[str]:
    """Find what a file does with the database but hand it on; types do not count."""
    annotations = {
        id(part)
        for node in walk(path)
        for annotation in (
            getattr(node, "annotation", None),
            getattr(node, "returns", None),
        )
        if annotation is not None
        for part in ast.walk(annotation)
    }
    for node in walk(path):
        if id(node) in annotations:
            continue
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from sorted(
                name
                for name in names
                if name.startswith(("sqlalchemy.", "models.database.tables."))
                or name in {"models.database.tables", *TRANSACTIONS}
            )
        elif isinstance(node, ast.Import):
            names = {alias.name for alias in node.names} - {"sqlalchemy"}
            yield from (name for name in names if name.startswith("sqlalchemy."))
        elif isinstance(node, ast.Attribute):
            of = node.value.id if isinstance(node.value, ast.Name) else ""
            if of in {"sa", "sqlalchemy"} or node.attr in STATEMENTS:
                yield f"{of}.{node.attr}"


def test_faces_only_format() -> None:
    """
    What they show is asked of a function below, so that every face can ask the same.

    Transactions are those of the modules that hand connections on. Who may come in is
    known to the faces alone, and what one page draws to that page.
    """
    found = [
        f"{name_of(path)}: {sql}"
        for path in SOURCES
        if path.relative_to(ROOT).parts[0] in FACES
        and name_of(path) not in HAND_CONNECTIONS_ON
        and not name_of(path).startswith("serving/access/")
        and not path.name.startswith("fetch_")
        for sql in find_sql(path)
    ]

    assert found == []


def test_all_errors_are_caught_in_few_places_only() -> None:
    """``except Exception`` elsewhere would hide bugs."""
    catchers = {
        name_of(path)
        for path in SOURCES
        for node in walk(path)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or "Exception" in ast.unparse(node.type).split("."))
        and ast.unparse(node.type or ast.Constant("")) in {"Exception", "''"}
    }

    assert catchers <= MAY_CATCH_ALL


def test_packages_have_no_logic_of_their_own() -> None:
    """An ``__init__.py`` is empty, or a table of what the package holds."""
    full = [
        name_of(path)
        for path in SOURCES
        if path.name == "__init__.py"
        and any(not isinstance(node, TABLE_PARTS) for node in parse(path).body)
    ]

    assert full == []


def test_modules_are_named_for_what_they_hold() -> None:
    """No drawer for odds and ends."""
    vague = [name_of(path) for path in SOURCES + TESTS if path.stem in VAGUE_NAMES]

    assert vague == []


def test_modules_and_functions_can_be_taken_in() -> None:
    """
    Modules have at most 400 lines, functions 60 beside their docstring.

    Migrations are lists, however long.
    """
    long = [
        f"{name_of(path)}: {lines} lines"
        for path in SOURCES
        if name_of(path) not in LISTS and "versions" not in path.parts
        if (lines := len(path.read_text().splitlines())) > LONGEST_MODULE
    ] + [
        f"{name_of(path)}:{node.lineno}: {node.name}, {lines} lines"
        for path in SOURCES
        if "versions" not in path.parts
        for node in walk(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := count_lines(node)) > LONGEST_FUNCTION
    ]

    assert long == []


def test_templates_have_no_long_lines() -> None:
    """120 characters, as the README."""
    assert [
        f"{name_of(path)}:{number}"
        for path in sorted((ROOT / "web").rglob("*.html"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > 120
    ] == []


def test_modules_say_what_they_are_for() -> None:
    """Every module that holds something starts with a docstring."""
    silent = [
        name_of(path)
        for path in SOURCES + TESTS
        if not re.match(r'(#.*\s+)*(r?"""|\Z)', path.read_text())
    ]

    assert silent == []


@pytest.mark.parametrize("tier", ["unit", "integration"])
def test_tests_stand_where_their_subject_does(tier: str) -> None:
    """
    A folder of tests has the path of a folder of the source.

    What concerns the whole of a database, whoever writes, is in ``store``.
    """
    rooms = {
        path.parent.relative_to(ROOT / "tests" / tier)
        for path in TESTS
        if path.is_relative_to(ROOT / "tests" / tier)
    }
    astray = [str(room) for room in rooms if not (ROOT / room).is_dir()]

    assert sorted(astray) == (["store"] if tier == "integration" else [])


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        ("requirements.lock", ()),
        ("requirements-image.lock", ("build", "mcp", "oidc", "otel")),
        (
            "requirements-dev.lock",
            ("build", "check", "docs", "mcp", "oidc", "otel", "test"),
        ),
        ("requirements-bench.lock", ("bench",)),
        ("requirements-release.lock", ("release",)),
    ],
)
def test_locks_fit_the_project(
    lock: str,
    extras: tuple[str, ...],
    pyproject: dict[str, dict[str, dict[str, list[str]]]],
) -> None:
    """
    Each dependency is pinned at a version that pyproject.toml allows (else: make lock).
    """
    text = (ROOT / lock).read_text()
    pins = r"^([\w.-]+)(?:\[[\w, ]+\])?==([\w.+-]+)"
    pinned = dict(re.findall(pins, text, re.MULTILINE))
    project = pyproject["project"]
    wanted = [
        *map(Requirement, project["dependencies"]),
        *(
            Requirement(text)
            for extra in extras
            for text in project["optional-dependencies"][extra]
        ),
    ]
    unfit = [
        str(requirement)
        for requirement in wanted
        if not requirement.specifier.contains(
            pinned.get(canonicalize_name(requirement.name), "0")
        )
    ]

    assert unfit == []


@pytest.mark.parametrize("lock", sorted(ROOT.glob("requirements*.lock")), ids=name_of)
def test_locks_have_hashes_and_no_addresses(lock: Path) -> None:
    """The same files are installed from whatever index a machine uses."""
    text = lock.read_text()
    entries = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]

    assert "://" not in text
    assert "--index" not in text
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_files_that_are_named_exist() -> None:
    """
    A file that was moved is not looked for where it was: by its path, or its name.
    """
    known = {each.name for each in [*SOURCES, *TESTS, *EXAMPLES]}
    texts = (
        *(path for path in SOURCES if "versions" not in path.parts),
        *(ROOT / name for name in ("pyproject.toml", "CONTRIBUTING.md", "README.md")),
        *(ROOT / "docs").glob("*.md"),
    )
    missing = [
        f"{name_of(path)} names {name}"
        for path in texts
        for name in re.findall(r"(?<![\w./-])(?:[\w-]+/)*\w+\.py\b", path.read_text())
        if not ((ROOT / name).exists() if "/" in name else name in known)
    ]

    assert missing == []


def test_what_is_imported_late_is_no_higher() -> None:
    """The linter of imports does not see what `import_module` is given."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    ranks = {
        name: rank
        for rank, layer in enumerate(layers)
        for name in re.findall(r"\w+", layer)
    }
    upwards = [
        f"{name_of(path)} imports {module}"
        for path in SOURCES
        for module in re.findall(r'import_module\(\s*"([\w.]+)"', path.read_text())
        if ranks.get(module.split(".")[0], len(ranks))
        < ranks.get(path.relative_to(ROOT).parts[0], 0)
    ]

    assert not upwards
