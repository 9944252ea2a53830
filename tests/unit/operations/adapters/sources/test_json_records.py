"""Arrays of JSON, read record by record, however they are cut."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.adapters.sources import json_records
from operations.adapters.sources.json_records import JsonRecordsError, iterate_records
from tests.unit.models.json_values import SCALARS, nest


class Dripping(io.BytesIO):
    """Gives a few bytes at a time, whatever is asked for."""

    def __init__(self, data: bytes, size: int) -> None:
        """Give *size* bytes of *data* at once."""
        super().__init__(data)
        self._size = size

    def read(self, _size: int | None = -1, /) -> bytes:
        """Give the next few."""
        return super().read(self._size)


@given(
    records=st.lists(st.dictionaries(st.text(max_size=3), nest(SCALARS)), max_size=5),
    size=st.integers(1, 20),
    indent=st.sampled_from([None, 2]),
    ascii_only=st.booleans(),
)
def test_records_are_those_of_the_library(
    records: list[dict[str, object]], size: int, indent: int | None, *, ascii_only: bool
):
    """Wherever the text is cut, also within a character; each record fits on a line."""
    text = json.dumps(records, indent=indent, ensure_ascii=ascii_only)
    data = text.encode("utf-8", errors="surrogatepass")

    found = list(iterate_records(Dripping(data, size)))

    assert records == [record for record, _line in found]
    assert records == [json.loads(line) for _record, line in found]
    assert all("\n" not in line for _record, line in found)


def test_one_object_is_one_record():
    """With a mark at its start, and space around it."""
    file = io.BytesIO(b'\xef\xbb\xbf {"a": 1.10} \n')

    assert [({"a": 1.1}, '{"a": 1.10}')] == list(iterate_records(file))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "with neither"),
        ("7", "with neither"),
        ('[{"a": 1}', "neither a comma nor"),
        ('[{"a": 1} {"b": 2}]', "neither a comma nor"),
        ('[{"a": 1},]', "Expecting value"),
        ('[{"a": nope}]', "Expecting value"),
        ('[{"a": NaN}]', "NaN is not JSON"),
        ('[{"a": 1}, 7]', "record 2 is not an object"),
        ("[] []", "more text follows"),
        ('[{"a": "', "Unterminated string"),
        ('[{"a": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_array_of_objects_is_refused(text: str, reason: str):
    """With a reason that its author understands."""
    with pytest.raises(JsonRecordsError, match=reason):
        list(iterate_records(io.BytesIO(text.encode())))


def test_text_of_another_encoding_is_refused():
    """JSON is UTF-8."""
    with pytest.raises(JsonRecordsError, match="UTF-8"):
        list(iterate_records(io.BytesIO('[{"a": "é"}]'.encode("latin-1"))))


def test_record_without_end_is_refused(monkeypatch: pytest.MonkeyPatch):
    """It is not kept in memory until the file ends."""
    monkeypatch.setattr(json_records, "LONGEST_RECORD", 1000)
    file = io.BytesIO(b'[{"a": "' + b"x" * 3_000_000)

    with pytest.raises(JsonRecordsError, match="longer than 1,000"):
        list(iterate_records(file))
    assert 3_000_000 > file.tell()
