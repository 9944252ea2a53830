"""What is made of a message that may be an answer; anything may be in it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_app.task_answers import (
    FAILED,
    LARGEST_BODY,
    LONGEST_VALUE,
    SUCCEEDED,
    TOKEN,
    AnswerMessage,
    make_links,
    read_answer,
    read_failure,
)
from operations.foreign_tasks import ForeignTask, TaskAnswer
from tests.unit.models.json_values import SCALARS, nest

ONE = "the token"


def make(value: object, name: str = SUCCEEDED, **headers: Any) -> AnswerMessage:
    """Return an answer with *value*."""
    body = json.dumps([[value], {}, {}]).encode()
    return AnswerMessage(
        {"task": name, TOKEN: ONE, **headers}, "application/json", body
    )


ANSWER = make(1)


def read(message: AnswerMessage) -> TaskAnswer:
    """Return the answer that *message* is."""
    told = read_answer(message)
    assert told is not None
    return told


def test_success_has_the_value():
    """As JSON, whatever it is."""
    told = read(make({"rows": [1, None]}))

    assert TaskAnswer(ONE, succeeded=True, returned={"rows": [1, None]}) == told


@pytest.mark.parametrize("name", [[], {}, None, 7, ["minutehand.answers"]])
def test_name_that_is_no_text_is_no_answer(name: Any):
    """Whoever shares the broker may write it, and must not stop others' answers."""
    assert read_answer(make(7, name)) is None


def make_first_protocol(name: str, value: object, **headers: Any) -> AnswerMessage:
    """Return an answer of a project with ``task_protocol = 1``."""
    task = ForeignTask("a", "id", token=ONE)
    links = make_links(task, "answers")
    (link,) = links["callbacks" if name == SUCCEEDED else "errbacks"]
    if name == FAILED:
        (link,) = link["kwargs"]["tasks"]
    body = json.dumps({"task": name, "id": "id", "args": [value], "kwargs": {}})
    given = link["options"]["headers"] | headers
    return AnswerMessage(given, "application/json", body.encode())


def test_answer_of_the_first_protocol_is_read():
    """Its headers have no name of a task; ours say how the task ended."""
    good = read_answer(make_first_protocol(SUCCEEDED, 7))
    bad = read_answer(make_first_protocol(FAILED, "id"))

    assert TaskAnswer(ONE, succeeded=True, returned=7) == good
    assert TaskAnswer(ONE, succeeded=False) == bad


def test_failure_has_the_token_alone():
    """Celery gives the id of the task, and no text."""
    told = read(make("some id", FAILED))

    assert (ONE, False, None) == (told.token, told.succeeded, told.returned)


def test_long_value_is_cut():
    """Little of it is kept."""
    told = read(make("x" * LONGEST_VALUE))

    assert "cut" in str(told.note)
    assert len(str(told.returned)) <= LONGEST_VALUE


@pytest.mark.parametrize(
    ("message", "word"),
    [
        (make("x" * LARGEST_BODY), "not kept"),
        # a few bytes may stand for many
        (make(7, compression="application/x-gzip"), "compressed as application/x-gzip"),
        (replace(ANSWER, content_type="application/x-python-serialize"), "python"),
        (replace(ANSWER, body=b"{"), "not JSON"),
        (replace(ANSWER, body=b"[" * 100_000), "within each other"),
        # whatever reads it later would fail
        *(
            (
                replace(ANSWER, body=b"[[%b%b], {}, {}]" % (b"[" * n, b"]" * n)),
                "within each other",
            )
            for n in (150, 970, 100_000)
        ),
    ],
)
def test_value_that_is_not_kept_is_a_success_all_the_same(
    message: AnswerMessage, word: str
):
    """Only JSON is decoded."""
    told = read(message)

    assert (True, None) == (told.succeeded, told.returned)
    assert word in str(told.note)


@given(
    st.dictionaries(st.sampled_from(["task", TOKEN, "id"]), st.text() | st.integers())
    | st.none()
    | st.lists(st.integers()),
    st.none() | st.text(),
    st.binary(),
)
def test_anything_else_is_no_answer(headers: Any, content_type: Any, body: bytes):
    """Nobody is asked to trust what others put into a queue."""
    assert read_answer(AnswerMessage(headers, content_type, body)) is None


def test_callbacks_go_to_the_queue_without_its_name_being_declared():
    """Of the default exchange, by a key; a value is asked for unless unwanted."""
    task = ForeignTask("a", "id", token=ONE, with_value=False)

    links = make_links(task, "minutehand.answers.x")

    (good,) = links["callbacks"]
    (bad,) = links["errbacks"][0]["kwargs"]["tasks"]
    for each in (good, bad):
        assert ("", "minutehand.answers.x") == (
            each["options"]["exchange"],
            each["options"]["routing_key"],
        )
        assert ONE == each["options"]["headers"][TOKEN]
    assert good["immutable"]


def make_result(
    said: object, kind: object = "ValueError", status: str = "FAILURE"
) -> bytes:
    """Return a result as Celery stores it."""
    result = {"exc_type": kind, "exc_message": said, "exc_module": "os"}
    return json.dumps({"status": status, "result": result}).encode()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["no such shop", 7], "ValueError: no such shop, 7"),
        ("no such\n\n shop", "ValueError: no such shop"),
        ([], "ValueError"),
        (["a\0b\ud800"], "ValueError: a\ufffdb\ufffd"),
    ],
)
def test_failure_is_told_in_a_line(said: object, expected: str):
    """That the database can store."""
    assert expected == read_failure(make_result(said))


def test_failure_is_told_within_bounds():
    """However long it is."""
    told = read_failure(make_result(["x" * 100_000]))

    assert told is not None
    assert len(told) < 1_100


@pytest.mark.parametrize(
    "stored", [b"", b"\x80\x04", make_result([], status="SUCCESS"), b"[" * 100_000]
)
def test_what_is_no_failure_tells_nothing(stored: bytes):
    """No result, one in pickle, a success, and one that is too deep."""
    assert read_failure(stored) is None


_JSON = nest(SCALARS)


@given(
    st.binary()
    | _JSON.map(json.dumps).map(str.encode)
    | st.builds(make_result, _JSON, _JSON)
)
def test_anything_may_be_stored(stored: bytes):
    """Others write there."""
    told = read_failure(stored)

    assert told is None or "\n" not in told
