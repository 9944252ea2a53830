"""The documentation is complete, and its links lead somewhere."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from cli.lazy import Group, load
from cli.main import COMMANDS
from models.door.app_documents import read_small_app
from models.door.documents import read_action
from models.fields.strict_model import DocumentModel
from models.scheduled_action import ScheduledActionModel
from models.small_app import SmallAppModel, SourceModel, UserModel
from models.when import KINDS
from operations.steps import STEPS
from tests.test_layout import ROOT, name_of

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

_FENCES = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
#: What is meant as a place in this repository: below one of its folders, or a module.
_PLACE = re.compile(
    r"(?P<path>(?:actions|api|benchmarks|celery_app|cli|deploy|dispatch|docs|migrations"
    r"|models|operations|overview|serving|tests|web)/[\w./-]*"
    r"|(?:scheduler_server|settings|telemetry|tracing)\.py)"
    r"(?::(?P<name>[\w.]+))?"
)
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@cache
def read_text(page: Path) -> str:
    """Return what *page* says, but for what it quotes."""
    return _FENCES.sub("", page.read_text(encoding="utf-8"))


@cache
def find_anchors(page: Path) -> set[str]:
    """Return the anchors of all headings of *page*: what a link to them ends in."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(read_text(page))
    }


def leads_somewhere(page: Path, link: str) -> bool:
    """Tell whether the file that a *link* of *page* names is there, and the heading."""
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    return target.exists() and (not anchor or anchor in find_anchors(target))


def test_relative_links_lead_somewhere() -> None:
    """On all pages, but in what they quote."""
    broken = [
        f"{name_of(page)}: {link}"
        for page in PAGES
        for link in _LINK.findall(read_text(page))
        if "://" not in link and not link.startswith("mailto:")
        if not leads_somewhere(page, link)
    ]

    assert broken == []


def test_site_is_built_strictly(tmp_path: Path) -> None:
    """Each page is in its navigation, no link is dead, and machines have a text."""
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=True,
        timeout=300,
    )

    assert "celery-project.md" in (tmp_path / "llms.txt").read_text()
    assert (tmp_path / "search/search_index.json").is_file()


def test_every_page_and_picture_can_be_found() -> None:
    """Some page links to it, or shows it."""
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in _LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in link
    }

    found = ROOT.glob("docs/**/*.*")
    kept = {each for each in found if each.suffix in {".md", ".png", ".svg"}}

    assert kept - linked == set()


def test_files_and_functions_that_a_page_names_are_there() -> None:
    """As seen from the root: a folder, a file, or ``file:function``."""
    gone = [
        f"{name_of(page)}: {name}"
        for page in PAGES
        for name in re.findall(r"`([^`\n]+)`", read_text(page))
        if (match := _PLACE.fullmatch(name))
        if not is_there(match["path"], match["name"])
    ]

    assert gone == []


@pytest.mark.parametrize("name", ["Makefile", ".ci/run"])
def test_files_that_a_script_names_are_there(name: str) -> None:
    """A target that runs tests fails long after they were moved."""
    named = re.findall(r"(?<![\w./-])tests/[\w./-]*\w", (ROOT / name).read_text())

    assert [] == [path for path in named if not (ROOT / path).exists()]


def is_there(path: str, name: str | None) -> bool:
    """Tell whether *path* exists, and *name* (maybe ``Class.method``) at its top."""
    place = ROOT / path
    return place.exists() and (name is None or name in find_names(place))


@cache
def find_names(path: Path) -> set[str]:
    """Return what a module defines, and ``Class.method`` of its classes."""
    return {
        name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        for name in name_node(node)
    }


def name_node(node: ast.stmt) -> Iterator[str]:
    """Return the names that a statement of a module gives to something."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.name
        case ast.ClassDef():
            yield node.name
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{inner.name}"
        case ast.Assign(targets=[ast.Name(id=name)]):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def test_the_original_names_are_where_their_page_says() -> None:
    """
    One of the files of each row of docs/origin.md has every name of its first column.
    """
    text = (ROOT / "docs/origin.md").read_text(encoding="utf-8")
    gone = []
    for row in re.findall(r"^\| (.*`.*) \|$", text, re.MULTILINE):
        first, *_, last = row.split(" | ")
        files = re.findall("`([^`]+)`", last)
        sources = "".join((ROOT / name).read_text(encoding="utf-8") for name in files)
        gone += [name for name in re.findall(r"`(\w+)`", first) if name not in sources]

    assert gone == []


def find_commands(group: Group, *names: str) -> Iterator[tuple[str, str]]:
    """Find what can be called below *group*."""
    for name, entry in group.entries.items():
        if isinstance(entry, Group):
            yield from find_commands(entry, *names, name)
        else:
            yield " ".join((*names, name)), entry


CALLS = dict(find_commands(COMMANDS))


@dataclass(frozen=True, slots=True)
class Parameters:
    """
    What a command takes.

    Args:
        options: Each with all its spellings.
        arguments: The words that stand for them: FILE, DIR.
    """

    options: list[set[str]]
    arguments: set[str]


@cache
def load_parameters(name: str) -> Parameters:
    """Ask the command *name* itself; ``--help`` is everybody's."""
    found = load(CALLS[name], name=name.rpartition(" ")[2]).params
    return Parameters(
        [{*each.opts} for each in found if each.param_type_name == "option"],
        {
            word
            for each in found
            if each.param_type_name == "argument"
            for word in re.findall(r"\b[A-Z]+\b", each.metavar)
            # what Celery is told is a convention of all programs
            if word != "OPTIONS"
        },
    )


_OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z-]*")


@dataclass(frozen=True, slots=True)
class Synopsis:
    """
    How docs/cli.md says that a command is called, and what it says of it.

    Args:
        call: The line, from the command's name on.
        body: The text below, maybe that of several commands.
    """

    call: str
    body: str

    @property
    def options(self) -> set[str]:
        """The options of the line."""
        return {*_OPTION.findall(self.call)}

    @property
    def arguments(self) -> set[str]:
        """The words of the line that stand for arguments, and for no option's value."""
        call = re.sub(_OPTION.pattern + r"( [A-Z]+)?", "", self.call)
        return {*re.findall(r"\b[A-Z]+\b", call)} - {"OPTIONS"}


@cache
def read_synopses() -> dict[str, list[Synopsis]]:
    """Return the entries of docs/cli.md by the names of the commands they are about."""
    found: dict[str, list[Synopsis]] = {}
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    entry = r"^(`minutehand .*)\n: ((?:.*\n)(?:(?:  .*)?\n)*)"
    for line, body in re.findall(entry, text, re.MULTILINE):
        group = ""
        for call in re.findall("`(?:minutehand )?(.+?)`", line):
            # "actions pause ACTION · resume ACTION" names the group once
            first, second = [*call.split(), ""][:2]
            if first in COMMANDS.entries:
                is_group = isinstance(COMMANDS.entries[first], Group)
                group, names = (first, second) if is_group else ("", first)
            else:
                names = first
            for name in names.split("|"):
                rest = call.partition(names)[2]
                found.setdefault(f"{group} {name}".strip(), []).append(
                    Synopsis(rest, body)
                )
    return found


def test_commands_that_are_described_are_those_that_are_there() -> None:
    """docs/cli.md has an entry for each command, and none for anything else."""
    assert {*read_synopses()} == {*CALLS}


@pytest.mark.parametrize("command", CALLS)
def test_command_is_described(command: str) -> None:
    """
    Its entry has the arguments of its --help, and each option but --json, which the
    page says of all; and shows none in a call that there is not.
    """
    taken, said = load_parameters(command), read_synopses()[command]
    shown = {option for synopsis in said for option in synopsis.options}
    described = {option for each in said for option in _OPTION.findall(each.body)}
    known = {*shown, *described, "--json"}

    assert [] == [sorted(each) for each in taken.options if not each & known]
    assert set() == shown.difference(*taken.options)
    assert taken.arguments == {word for each in said for word in each.arguments}


def test_every_option_that_the_text_names_is_there() -> None:
    """Some command takes what docs/cli.md speaks of."""
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    named = {
        option
        for code in re.findall("`([^`\n]+)`", text)
        for option in _OPTION.findall(code)
        if option.startswith("--")
    }
    taken = {
        spelling
        for command in CALLS
        for spellings in load_parameters(command).options
        for spelling in spellings
    }

    assert {"--help", "--install-completion", "--version"} == named - taken


def test_every_step_is_described() -> None:
    """docs/steps.md has a heading for each."""
    assert set() == {*STEPS} - find_anchors(ROOT / "docs/steps.md")


def test_every_field_of_an_action_is_described() -> None:
    """docs/actions.md has a row for each."""
    text = (ROOT / "docs/actions.md").read_text(encoding="utf-8")
    rows = text.partition("\n## ")[0]
    fields = ScheduledActionModel.model_fields.items()

    assert sorted(field.alias or name for name, field in fields) == sorted(
        re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)
    )


def test_defaults_of_an_action_are_those_of_the_page() -> None:
    """Where docs/actions.md gives one as JSON: to write it down changes nothing."""
    text = (ROOT / "docs/actions.md").read_text(encoding="utf-8")
    rows = text.partition("\n## ")[0]
    written = re.findall(r"^\| `(\w+)` \| `(.*?)` \|", rows, re.MULTILINE)
    least = {
        "name": "x",
        "operations": {"maintenance": True},
        "when": {"cron_rule": "@daily"},
    }
    document = {**least, **{name: json.loads(default) for name, default in written}}

    assert written
    assert read_action(json.dumps(least)) == read_action(json.dumps(document))


def test_every_kind_of_when_is_described() -> None:
    """docs/actions.md has a row for each, and so has the README."""
    text = (ROOT / "docs/actions.md").read_text(encoding="utf-8")
    section = text.partition("\n## when\n")[2].partition("\n## ")[0]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert sorted(KINDS) == sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    shown = re.findall(r"^\| [\w ]+ \| `({.*?})` \|", readme, re.MULTILINE)
    assert set(KINDS) == {key for when in shown for key in json.loads(when)} & set(
        KINDS
    )


def test_readme_fits_a_terminal() -> None:
    """No line of it is above 120 characters: people read it in one, too."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()

    assert [] == [line for line in lines if len(line) > 120]


def test_the_example_of_an_action_is_accepted() -> None:
    """The whole document at the top of docs/actions.md has every optional field."""
    text = (ROOT / "docs/actions.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)

    model = read_action(example)

    unset = set(ScheduledActionModel.model_fields) - model.model_fields_set
    assert {"recipients"} == unset


@pytest.mark.parametrize(
    ("model", "section"), [(SmallAppModel, ""), (UserModel, "users")]
)
def test_every_field_of_a_small_app_is_described(
    model: type[DocumentModel], section: str
) -> None:
    """docs/apps.md has each in the first column of its table."""
    text = (ROOT / "docs/apps.md").read_text(encoding="utf-8")
    text = text.partition(f"\n## {section}\n")[2] if section else text
    firsts = re.findall(r"^\| (`.*?) \|", text.partition("\n## ")[0], re.MULTILINE)

    described = {name for first in firsts for name in re.findall("`(.*?)`", first)}

    assert set(model.model_fields) == described


def test_the_example_of_a_small_app_is_accepted() -> None:
    """The whole document at the top of docs/apps.md has every part, and each source."""
    text = (ROOT / "docs/apps.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)

    app = read_small_app(example)

    assert set(SmallAppModel.model_fields) == app.model_fields_set
    sources = {
        key for each in app.domains or () for key in each.source.model_fields_set
    }
    assert set(SourceModel.model_fields) == sources
