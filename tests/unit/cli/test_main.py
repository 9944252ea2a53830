"""How the command line is put together, and how calls end."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.connection import get_settings
from cli.lazy import Group, load, read_summary
from cli.main import COMMANDS, INTERRUPTED, main
from models.door.action_schema import make_action_schema
from models.errors import MinutehandError, UsageError
from tests.servers import ROOT, run_to_end


def _find_entries(group: Group, path: str = "") -> Iterator[tuple[str, str]]:
    for name, entry in group.entries.items():
        if isinstance(entry, Group):
            yield from _find_entries(entry, f"{path}{name} ")
        else:
            yield f"{path}{name}", entry


_ENTRIES = dict(_find_entries(COMMANDS))


def test_summary_is_what_the_command_says_of_itself():
    """The list of commands, which imports none of them, tells the same as they do."""
    told = {name: read_summary(entry) for name, entry in _ENTRIES.items()}
    said = {}
    for name, entry in _ENTRIES.items():
        module, _, function = entry.partition(":")
        text = inspect.getdoc(getattr(import_module(module), function))
        said[name] = str(text).partition("\n")[0]

    assert said == told


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]):
    codes, told = {}, {}
    for name in _ENTRIES:
        codes[name] = main([*name.split(), "--help"])
        told[name] = capsys.readouterr().out

    assert dict.fromkeys(_ENTRIES, 0) == codes
    assert [] == [name for name in told if f"minutehand {name}" not in told[name]]


def test_help_breaks_lines_where_the_window_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Not where those of the source end, too."""
    monkeypatch.setenv("COLUMNS", "80")

    main(["up", "--help"])

    lines = map(str.strip, capsys.readouterr().out.splitlines())
    end = "HTTP API, and one SQLite file in MINUTEHAND_HOME. Ctrl-C stops it."
    assert end in lines


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["operations", "list", "--state", "gone"],
        ["operations", "list", "--limit", "0"],
        ["operations", "list", "--from", "someday"],
        ["operations", "retry", "--all", "--from-step", "refresh"],
        ["operations", "state", "x", "--timeout", "PT5S"],
        ["operations", "state", "x", "--wait", "--timeout", "5 s"],
        ["operations", "state", "x", "--wait", "--timeout", "P1M"],
        ["operations", "log", "x", "--after", "-1"],
        ["actions", "post"],
        ["worker", "--queues", "quick,slow"],
        ["events", "send", "--app", "shop"],
        ["preview"],
        ["preview", "/no/such/file"],
        ["scheduler"],
    ],
)
def test_wrong_call_is_usage(
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("MINUTEHAND_BROKER_URL", "memory://")

    code = main(arguments)

    printed = capsys.readouterr()
    assert 2 == code
    assert printed.err
    assert "" == printed.out


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]):
    code = main(["--version"])

    assert (0, f"minutehand {version('minutehand')}\n") == (
        code,
        capsys.readouterr().out,
    )


def test_schema_is_printed(capsys: pytest.CaptureFixture[str]):
    """That of the HTTP API, with the key that a document names it by."""
    assert 0 == main(["schema"])

    printed = json.loads(capsys.readouterr().out)
    assert make_action_schema() == printed
    assert "$schema" in printed["properties"]


def test_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]):
    """Whoever writes a script finds every code of ours without the documentation."""
    main(["--help"])

    told = capsys.readouterr().out.partition("Exit codes: ")[2]
    codes = {error.exit_code for error in (MinutehandError, *_find_subclasses())}
    assert sorted({0, INTERRUPTED, *codes}) == sorted(
        int(number) for number in re.findall(r"\d+", told)
    )


def _find_subclasses(of: type[MinutehandError] = MinutehandError) -> Iterator[Any]:
    for each in of.__subclasses__():
        yield each
        yield from _find_subclasses(each)


def test_error_of_several_lines_is_one_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("MINUTEHAND_LOKBACK", "PT5M")
    monkeypatch.setenv("MINUTEHAND_TIMEZONE", "Mars")
    get_settings.cache_clear()

    code = main(["apps", "list"])

    first, second = capsys.readouterr().err.splitlines()
    assert 2 == code
    assert first.startswith("error: MINUTEHAND_LOKBACK is not a setting.")
    assert second.startswith("       MINUTEHAND_TIMEZONE: 'Mars'")


#: Each takes from a twentieth of a second to half a second of CPU to import.
_HEAVY = {
    "alembic",
    "celery",
    "fastapi",
    "fpdf",
    "httpx",
    "jinja2",
    "kombu",
    "polars",
    "psycopg",
    "starlette",
    "uvicorn",
    "yaml",
}

#: Commands that run a part of the fleet, or migrate: those do need some of them. Those
#: that import are one file, which reads YAML, and two read mail templates.
_FLEET = {
    *("up", "demo", "scheduler", "worker", "web", "migrate"),
    *("apps apply", "mails preview"),
} | {name for name in _ENTRIES if name.startswith("import ")}

#: A twentieth of a second: the kinds of ``when`` with their models, and what steps do.
_RULES = {"actions.when", "models.when", "operations.ports"}

#: Commands that read neither a rule nor a document.
_PLAIN = {
    *("operations state", "operations log"),
    *("queues list", "queues pause", "workers list", "workers drain"),
    *("keys list", "changes list", "mails list"),
    *("operations list", "operations show"),
}

#: A twentieth of a second: the log and the metrics, which are the fleet's.
_TOLD = {"prometheus_client", "structlog"}

#: Commands that write none of them, although what they show is the fleet's work.
_SILENT = _PLAIN | {
    *("status", "doctor", "actions list", "actions show", "actions post"),
    *("actions pause", "apps apply", "apps list", "preview", "why", "load", "audit"),
    "backfills list",
}

#: As long as the log: colours for code, of which one command prints some.
_COLORED = {"pygments", "rich.syntax"}


#: One after the other in one process: commands, and what is not loaded after them.
_STAGES: list[tuple[set[str], set[str]]] = [
    (set(), {"models.operation", "models.small_app", *_RULES}),
    (_PLAIN, _RULES | _TOLD | _COLORED | _HEAVY),
    (_SILENT - _FLEET - {"actions show"}, _TOLD | _COLORED | _HEAVY),
    ({"actions show"}, _TOLD | _HEAVY),
    (_ENTRIES.keys() - _FLEET, _HEAVY),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "stages", [_STAGES, [({"apps apply"}, _TOLD | _COLORED)]], ids=["looks", "apply"]
)
def test_commands_import_only_what_they_need(stages: list[tuple[set[str], set[str]]]):
    """What is asked a hundred times a day does not wait for what it does not need."""
    assert_spared(
        ({_ENTRIES[name].partition(":")[0] for name in names}, spared)
        for names, spared in stages
    )


def test_scheduler_imports_nothing_that_lays_out_mails():
    """It does no work itself; fonts and pictures took a fifth of its memory."""
    assert_spared([({"scheduler_server"}, {"fpdf", "PIL", "fontTools", "polars"})])


def assert_spared(stages: Iterable[tuple[set[str], set[str]]]) -> None:
    """Check that what a process imports, stage by stage, imports nothing else."""
    asked = [(["settings", *sorted(names)], spared) for names, spared in stages]
    code = (
        "import sys; from importlib import import_module\n"
        f"for names, spared in {asked}:\n"
        "    for name in names:\n"
        "        import_module(name)\n"
        "        unwanted = spared & set(sys.modules)\n"
        "        assert not unwanted, (name, unwanted)"
    )

    done = run_to_end([sys.executable, "-c", code])

    assert 0 == done.returncode, done.stderr


def _call(command: str, stdout: int | None = None, **environ: str) -> tuple[int, str]:
    """Return how a command of a shell ended, and what it complained of."""
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m cli.main {command}"],
        cwd=ROOT,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, **environ},
    )
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["schema", "preview docs/examples/action.json", "--help"]
)
def test_reader_that_leaves_early_gets_no_complaint(command: str):
    """``minutehand ... | head -1`` ends in silence, and well, whoever writes."""
    reader, writer = os.pipe()
    os.close(reader)

    assert (0, "") == _call(command, writer)
    os.close(writer)


@pytest.mark.slow
def test_output_that_goes_nowhere_is_no_mistake_of_ours():
    full = "error: what was to be written is cut short: No space left on device\n"

    assert (0, "") == _call("schema >&-")
    assert (1, full) == _call("schema >/dev/full")


@pytest.mark.slow
@pytest.mark.parametrize("log", ["full", "left"])
@pytest.mark.parametrize("wrong", [["preview", "/nowhere"], ["preview", "--nothing"]])
def test_complaint_that_nobody_can_read_changes_no_exit_code(
    log: str, wrong: list[str]
):
    """
    A full disk under a log, or a reader who left, makes nothing else of it, whoever
    complains: we, or Typer.
    """
    reader, writer = os.pipe()
    os.close(reader)
    if log == "full":
        os.close(writer)
        writer = os.open("/dev/full", os.O_WRONLY)

    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *wrong],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": ""},  # else nothing is tried again
        stderr=writer,
        check=False,
    )

    os.close(writer)
    assert UsageError.exit_code == done.returncode


@pytest.mark.slow
def test_letters_of_other_encodings_end_no_command(tmp_path: Path):
    """What was typed is refused; what is shown has escapes."""
    crontab, shown = tmp_path / "crontab", tmp_path / "shown"
    crontab.write_text("0 7 * * * échec →\n")

    typed = _call("actions show 'caf\udce9'")
    asked = _call(f"import crontab {crontab} >{shown}", PYTHONIOENCODING="ascii")

    assert (2, "error: 'caf\\udce9' is not in UTF-8\n") == typed
    assert 0 == asked[0]
    assert r"\xe9chec \u2192" in shown.read_text(encoding="ascii")


def _find_hints() -> Iterator[str]:
    """Yield the command lines that texts of ours say to run; X is a value."""
    passed_over = {"tests", "benchmarks", ".venv", ".git", "node_modules"}
    rooms = [each for each in ROOT.iterdir() if each.name not in passed_over]
    for path in [
        *ROOT.glob("*.py"),
        *(p for each in rooms for p in each.rglob("*.py")),
    ]:
        if "minutehand " not in (source := path.read_text()):
            continue
        nodes = list(ast.walk(ast.parse(source)))
        texts: list[Sequence[ast.AST]] = [
            node.values for node in nodes if isinstance(node, ast.JoinedStr)
        ]
        inner = {id(part) for parts in texts for part in parts}
        texts += [[node] for node in nodes if id(node) not in inner]
        for parts in texts:
            if isinstance(parts[0], ast.Constant):
                yield from _HINT.findall("".join(map(_show, parts)))


def _show(part: ast.AST) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "X"


#: A command line at the end of a sentence, which begins behind a colon.
_HINT = re.compile(r"[a-z]: minutehand ([a-z]+ [^.,;()\n]+?)(?= or |[.,;()\n]|$)")


@pytest.mark.slow
def test_hints_name_what_their_command_needs():
    """Each is read as if it were typed, with X for what is filled in."""
    wrong = []
    hints = set(_find_hints())
    for hint in hints:
        name = next(
            (each for each in _ENTRIES if f"{hint} ".startswith(f"{each} ")), ""
        )
        try:
            command = load(_ENTRIES[name], name=name)
            command.make_context(name, hint.removeprefix(name).split())
        except KeyError:
            wrong.append(hint)
        except typer.BadParameter as error:
            # what is filled in need not be a value that this option takes
            if type(error) is not typer.BadParameter:
                wrong.append(f"{hint}: {error}")

    assert "actions post FILE --app APP" in hints
    assert [] == wrong
