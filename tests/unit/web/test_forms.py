"""What people typed, and what was wrong with it."""

from __future__ import annotations

import pytest

from models.errors import InvalidDocumentError, Problem, UsageError
from models.requests.notes import NoteModel
from web.forms import make_refused, read_form


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
    """
    The field is the one that its pointer begins with; without one, it is told above.
    """
    problems = [
        Problem("/when/cron", "Bad.", "Write 5 fields."),
        Problem("", "It is empty.", ""),
    ]
    refused = make_refused(InvalidDocumentError(tuple(problems)))

    assert {"when": ["Bad. Write 5 fields."]} == refused.fields
    assert ("It is empty.",) == refused.others
    assert "2 problems" in refused.told
