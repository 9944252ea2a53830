"""A pickle is read as data, whatever it was made for."""

from __future__ import annotations

import os
import pickle
import subprocess
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.importing.origins.apscheduler import APSCHEDULER
from actions.importing.origins.imported import ImportVerdict, Stored
from actions.importing.readers.databases import read_job
from models.fields.zone import load_zone
from tests.unit.actions.importing.documents import import_one


class Calls:
    """Pickles as a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_dates_and_zones_are_read(protocol: int):
    """In each protocol that has classes as APScheduler pickles them."""
    state = {
        "zone": ZoneInfo("Europe/Paris"),
        "at": datetime(2026, 12, 1, 9, tzinfo=UTC),
        "day": date(2026, 12, 1),
        "every": timedelta(hours=3),
        "list": [1, (2.5, None, True)],
    }

    read = read_job("it", pickle.dumps(state, protocol)).fields

    assert read == {**state, "zone": load_zone("Europe/Paris")}


@pytest.mark.parametrize(
    "function", [os.system, subprocess.call, eval, exec, __import__, Path.touch, open]
)
def test_nothing_that_a_pickle_names_is_called(function: Any, tmp_path: Path):
    """What would run a program is a record of its name."""
    witness = tmp_path / "witness"
    call = Calls(function, f"touch {witness}")
    job = read_job("it", pickle.dumps({"func": "a:b", "args": [call]}))

    assert isinstance(job.fields["args"][0], Stored)
    assert not witness.exists()


@pytest.mark.parametrize(
    "state",
    [
        b"",
        b"not a pickle",
        pickle.dumps([1, 2]),
        pickle.dumps({"a": 1})[:-3],
        # getattr of anything but a zone's constructor
        pickle.dumps({"a": Calls(getattr, "text", "upper")}),
        b"cos\nsystem\n",
        b"\x80\x04X\xff\xff\xff\x7f",
        b"\x80\x02]" + b"q\x00" * 10,
        # a memo index of four thousand millions
        b"\x80\x02}r\xff\xff\xff\xff.",
        b"x" * (2 << 20),
    ],
)
def test_what_is_no_job_is_told(state: bytes):
    """Cut off, made up or huge: it is one report, and no memory."""
    job = read_job("it", state)

    assert job.fields == {}
    assert import_one(job, APSCHEDULER).verdict is ImportVerdict.CANNOT_BE


def test_list_in_many_places_is_not_spread_out():
    """Forty levels of a list twice in the next would be a million million values."""
    nested: list[Any] = []
    for _ in range(40):
        nested = [nested, nested]

    job = read_job("it", pickle.dumps({"args": nested}))

    assert "values" in job.problem


def test_list_within_itself_is_told():
    """JSON could not say it either."""
    nested: list[Any] = []
    nested.append(nested)

    assert read_job("it", pickle.dumps({"args": nested})).problem


@given(st.binary(max_size=200), st.integers(0, 400))
def test_altered_pickles_never_raise(noise: bytes, place: int):
    """Any bytes within a real one are read or refused."""
    state = {"zone": ZoneInfo("UTC"), "at": datetime(2026, 1, 1, tzinfo=UTC)}
    real = pickle.dumps({"args": [Calls(os.getcwd), state], "func": "a:b"}, 2)
    place %= len(real)

    read_job("it", real[:place] + noise + real[place:])
