"""What people typed, and what was wrong with it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.errors import InvalidDocumentError, Problem, UsageError
from models.requests.notes import NoteModel
from web.forms import make_refused, read_form, tell_on_pages

ROOT = Path(__file__).parents[3]

#: Where texts are that pages may show: refusals, doubts, errors of runs, and reasons.
SAYING = ("actions", "dispatch", "models", "operations", "overview", "serving")

#: What no page shows, or what is for whoever has a shell.
FOR_SHELLS = (
    "actions/importing/",
    "dispatch/after_restore.py",
    "operations/fleet/strangers.py",
    "operations/notices/",
    "overview/doctor/checks/",
)

#: Signs of a text that is for a shell: a command, an option, a file of `apps apply`.
SIGNS = ("minutehand ", " --", "app.json")

#: What is no sentence, or has a command on purpose: of the page where one signs in, and
#: of what no page can start.
NO_SENTENCES = {
    "minutehand source",
    "minutehand keys link --all --role admin",
    "minutehand scheduler starts one, and so does minutehand up",
}

#: What doctor advises and pages can do, too.
ON_PAGES = re.compile(r"minutehand (actions|apps|mails|status|why|workers|queues r)")


def test_fields_are_kept_as_they_were_typed():
    """Also empty ones, several of a name, and the ends of lines as one types them."""
    form = read_form(b"note=%20a%0D%0Ab&id=1&id=2&empty=")

    assert " a\nb" == form.find("note")
    assert ["1", "2"] == form.get_all("id")
    assert "" == form.find("empty")
    assert form.find("other") is None
    assert not form.has("other")


@pytest.mark.parametrize("body", [b"a=\xff", b"a=%FF", b"&".join([b"a=1"] * 3000)])
def test_what_is_not_a_form_is_refused(body: bytes):
    """With what to do about it."""
    with pytest.raises(UsageError, match="Load the page again"):
        read_form(body)


def test_form_passes_the_door_of_the_api():
    """So a page says what a program would be told."""
    form = read_form(b"note=" + b"x" * 3000)
    with pytest.raises(InvalidDocumentError) as caught:
        form.read(NoteModel, "cancellation")
    refused = make_refused(caught.value)

    assert ["note"] == [*refused.fields]
    assert "nothing was saved" in refused.told
    assert NoteModel() == read_form(b"note=").read(NoteModel, "cancellation")


def test_problem_is_told_beside_its_field():
    """The one that its pointer begins with; without one, it is told above."""
    problems = [
        Problem("/when/cron", "Bad.", "Write 5 fields."),
        Problem("", "It is empty.", ""),
    ]
    refused = make_refused(InvalidDocumentError(tuple(problems)))

    assert {"when": ["Bad. Write 5 fields."]} == refused.fields
    assert ("It is empty.",) == refused.others
    assert "2 problems" in refused.told


@pytest.mark.parametrize(
    ("option", "name"), [("--until", "until"), ("--at-once", "at_once")]
)
def test_problem_with_an_option_is_told_beside_its_field(option: str, name: str):
    """Such as the end of a pause that is over before it begins."""
    refused = make_refused(UsageError(f"{option}: 0 is too little. Write more."))

    assert {name: ["0 is too little. Write more."]} == refused.fields
    assert () == refused.others


def test_problem_with_the_value_of_an_option_is_told_beside_its_field():
    """Such as an end of a backfill that is still to come, with the instant in words."""
    refused = make_refused(UsageError("--until (8:00) is later than now: wait."))

    assert {"until": ["Until (8:00) is later than now: wait."]} == refused.fields


def _find_texts(path: Path) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings; values are {}."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    inner = {id(part) for node in joined for part in node.values}
    inner |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for each in joined:
        parts = (p.value if isinstance(p, ast.Constant) else "{}" for p in each.values)
        yield "".join(map(str, parts))
    for node in nodes:
        if isinstance(node, ast.Constant) and id(node) not in inner:
            yield str(node.value)


def _find_advice() -> set[str]:
    """Return what pages may show and what names something of a shell."""
    paths = [each for part in SAYING for each in (ROOT / part).rglob("*.py")]
    shown = (
        path
        for path in paths
        if not path.relative_to(ROOT).as_posix().startswith(FOR_SHELLS)
    )
    texts = {text for path in shown for text in _find_texts(path)} - NO_SENTENCES
    return {text for text in texts if any(sign in f" {text}" for sign in SIGNS)}


def test_pages_advise_no_command():
    """Whoever has pages only could do nothing with it."""
    advice = _find_advice()
    told = {text: tell_on_pages(text) for text in advice}

    assert len(advice) > 30
    assert {} == {
        text: on_pages
        for text, on_pages in told.items()
        if not on_pages or any(sign in f" {on_pages}" for sign in SIGNS)
    }


def test_doctor_names_the_page_beside_the_command():
    """Its findings are shown on pages and terminals, in the same words."""
    paths = (ROOT / "overview/doctor/checks").glob("*.py")
    texts = {text for path in paths for text in _find_texts(path)}
    advice = {text for text in texts if ON_PAGES.search(text)}

    assert advice
    assert set() == {text for text in advice if ", or minutehand " not in text}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "No folder. Give it one (minutehand apps apply DIR, with app.json in DIR).",
            "No folder. Give it one.",
        ),
        (
            "there is no app 'a'. Did you mean 'b'? List them: minutehand apps list",
            "there is no app 'a'. Did you mean 'b'?",
        ),
        ("--from (7) is not before --until (6).", "From (7) is not before until (6)."),
        ("exit 2: unknown option --from", "exit 2: unknown option --from"),
        ("rsync with --dry-run: 1", "rsync with --dry-run: 1"),
        ("their minutehand is none", "their minutehand is none"),
    ],
)
def test_pages_say_what_there_is_on_pages(text: str, expected: str):
    """And change nothing else that somebody may have written."""
    assert expected == tell_on_pages(text)


def test_refusals_of_forms_advise_no_command():
    """Neither those of a field, nor others."""
    hint = "It has none yet; add some on the page (minutehand apps apply FILE)"
    problems = (Problem("/recipients/groups/0", "no group 'x'.", hint),)
    refused = make_refused(InvalidDocumentError(problems))

    said = "no group 'x'. It has none yet; add some on the page"
    assert {"recipients": [said]} == refused.fields
