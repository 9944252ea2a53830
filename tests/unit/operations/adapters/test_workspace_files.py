"""Names as folders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.adapters.workspace_files import encode_name

names = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("sales", "sales"),
        ("..", "%2e%2e"),
        (".", "%2e"),
        ("a/b\\c", "a%2fb%5cc"),
        ("Sales", "%53ales"),
        ("é", "%c3%a9"),
        ("con:", "con%3a"),
        ("\0", "%00"),
    ],
)
def test_names_become_harmless(name: str, encoded: str):
    """Separators, dots, capitals and control characters are escaped."""
    assert encoded == encode_name(name)


@given(names)
def test_any_name_is_one_short_visible_folder(name: str):
    """Never empty, hidden, a path, or longer than file systems take."""
    encoded = encode_name(name)

    assert encoded
    assert not set(encoded) & set("./\\:\0 ")
    assert len(encoded) <= 150
    assert encoded == encoded.lower()


@given(names, names)
def test_different_names_are_different_folders(one: str, other: str):
    """No two names share a folder."""
    assert (one == other) == (encode_name(one) == encode_name(other))


def test_long_names_differ_by_their_digest():
    """Names that begin alike for longer than a folder name stay apart."""
    assert encode_name("x" * 500 + "a") != encode_name("x" * 500 + "b")
