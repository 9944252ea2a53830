"""What a worker prints becomes lines of its log."""

from __future__ import annotations

import io
import json
import logging

import pytest

from celery_app.logs import OwnLines
from telemetry import configure_logging


def read(stream: io.StringIO) -> list[tuple[str, str]]:
    """Return the logger and text of each line."""
    lines = map(json.loads, stream.getvalue().splitlines())
    return [(line["logger"], line["event"]) for line in lines]


def test_each_line_that_is_printed_is_one_of_the_log(stream: io.StringIO):
    """However it is cut into calls; empty ones are left out."""
    printed = OwnLines("stdout", io.StringIO())

    print("first\n\nsec", end="", file=printed)
    print("ond", file=printed)
    print("still to c", end="", file=printed)

    assert [("stdout", "first"), ("stdout", "second")] == read(stream)


def test_percent_signs_are_no_formats(stream: io.StringIO):
    """What others print is text."""
    print("100% of %s", file=OwnLines("stderr", io.StringIO()))

    assert [("stderr", "100% of %s")] == read(stream)


def test_log_that_complains_of_itself_goes_round_no_circle(
    monkeypatch: pytest.MonkeyPatch,
):
    """Its disk is full, and its complaint is printed, and so to be logged."""
    printed = OwnLines("stderr", io.StringIO())
    monkeypatch.setattr("sys.stderr", printed)

    class Full(io.StringIO):
        """Refuses whatever is written."""

        def write(self, _text: str) -> int:
            """Refuse."""
            raise OSError

    configure_logging(stream=Full(), log_format="json")

    logging.getLogger("celery").warning("lost")
