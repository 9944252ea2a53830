"""How secrets are written and recognized."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from serving.access.keys import (
    SECRET_LENGTH,
    is_of_digest,
    is_secret,
    make_digest,
    make_secret,
    read_key,
)

PREFIX = "mh_abcdefghij01_"
KEY = PREFIX + "0123456789ABCDEFGHIJKLMNOPQRST" + "2s89I4"


def test_secrets_have_enough_random_bits():
    """Nobody can try them all."""
    assert SECRET_LENGTH * math.log2(62) >= 160


def test_keys_of_today_are_keys_tomorrow():
    """The form is a contract: scanners and older keys know it."""
    assert "abcdefghij01" == read_key(KEY)


def test_no_two_secrets_are_the_same():
    """They come from the random numbers of the system."""
    assert 100 == len({make_secret(PREFIX) for _ in range(100)})


@given(st.integers(0, len(KEY) - 1), st.characters())
def test_every_typo_of_one_letter_is_noticed(place: int, letter: str):
    """A CRC finds them all, and no database is asked about them."""
    typo = KEY[:place] + letter + KEY[place + 1 :]

    assert (read_key(typo) is None) == (typo != KEY)


@given(st.integers(0, len(KEY) - 2))
def test_two_letters_in_the_wrong_order_are_noticed(place: int):
    """The typo that people make most."""
    first, second = KEY[place], KEY[place + 1]
    typo = KEY[:place] + second + first + KEY[place + 2 :]

    assert (read_key(typo) is None) == (first != second)


@given(
    st.one_of(
        st.text(),
        st.text().map(KEY.__add__),
        st.text().map(lambda text: text + KEY),
        st.integers(0, len(KEY)).map(lambda end: KEY[:end]),
    )
)
def test_whatever_else_is_sent_is_no_key(text: str):
    """Parts, other text, line feeds at the end: refused, and never an error."""
    assert (read_key(text) is None) == (text != KEY)


def test_secret_of_another_kind_is_none():
    """The link of a sign-in is no session, and neither is a key."""
    assert is_secret(make_secret("mhl_"), "mhl_")
    assert not is_secret(make_secret("mhl_"), "mhs_")


def test_digest_is_that_of_the_whole_text():
    """What is stored tells nobody the key, and fits it alone."""
    other = make_secret(PREFIX)

    assert 64 == len(make_digest(KEY))
    assert is_of_digest(KEY, make_digest(KEY))
    assert not is_of_digest(other, make_digest(KEY))
