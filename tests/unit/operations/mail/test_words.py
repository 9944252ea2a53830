"""What mails say in the language of their reader."""

from __future__ import annotations

import string
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from babel import Locale

from operations.mail.words import (
    FALLBACK,
    Sentence,
    Words,
    find_languages,
    find_words,
    read_sentences,
)

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
ENGLISH, FRENCH = (
    find_words(tag, zone=ZoneInfo("Europe/Paris")) for tag in ("en", "fr")
)
THIN = "\N{NARROW NO-BREAK SPACE}"


def find_names(sentence: Sentence) -> set[str]:
    """Return the values that a sentence has, in all of its forms."""
    forms = [sentence] if isinstance(sentence, str) else sentence.values()
    return {
        name
        for form in forms
        for _, name, _, _ in string.Formatter().parse(form)
        if name is not None
    }


def test_english_and_french_are_there():
    """Others are a file more."""
    assert {"en", "fr"} <= find_languages()


@pytest.mark.parametrize("language", sorted(find_languages()))
def test_each_language_says_everything(language: str):
    """The same sentences as English, with the same values, and each plural it needs."""
    ours, theirs = read_sentences(FALLBACK), read_sentences(language)

    assert ours.keys() == theirs.keys()
    tags = Locale(language).plural_form.tags | {"other"}
    for key, sentence in theirs.items():
        assert find_names(ours[key]) == find_names(sentence), key
        if not isinstance(ours[key], str):
            assert not isinstance(sentence, str), key
            assert "other" in sentence, key
            assert sentence.keys() <= tags, key


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        ("en", "en"),
        ("en-GB", "en-GB"),
        ("fr-CH", "fr-CH"),
        ("fr_CA", "fr-CA"),
        ("FR", "fr"),
        ("fr-XX", "fr-FR"),
        ("de", "en"),
        ("zh-Hans-CN", "en"),
        ("", "en"),
        ("xx", "en"),
        ("../../etc", "en"),
    ],
)
def test_language_that_nobody_translated_is_english(tag: str, found: str):
    """A country that nobody knows does not hide the language."""
    words = find_words(tag, zone=UTC)

    assert found.partition("-")[0] == words.tag.partition("-")[0]
    assert words.say("summary.kicker")


@pytest.mark.parametrize(
    ("number", "english", "french"),
    [
        (None, "–", "–"),
        (0, "0", "0"),
        (1234567, "1,234,567", f"1{THIN}234{THIN}567"),
        (2.0, "2", "2"),
        (-1234.567, "-1,234.57", f"-1{THIN}234,57"),
        (0.00012345, "0.000123", "0,000123"),
        (-0.0099, "-0.0099", "-0,0099"),
        (1e-9, "1e-09", "1e-09"),
        (float("nan"), "nan", "nan"),
        (float("-inf"), "-inf", "-inf"),
        (1e300, "1e+300", "1e+300"),
        (10**40, "1e+40", "1e+40"),
    ],
)
def test_numbers_are_for_people(number: float | None, english: str, french: str):
    """Thousands are apart, decimals are two, extremes are short."""
    assert (english, french) == (ENGLISH.number(number), FRENCH.number(number))


def test_years_are_written_without_separators():
    """2026 is no quantity."""
    assert "2026" == ENGLISH.number(2026, grouped=False)


@pytest.mark.parametrize(
    ("age", "english", "french"),
    [
        (timedelta(seconds=-9), "just now", "à l’instant"),
        (timedelta(seconds=59), "just now", "à l’instant"),
        (timedelta(seconds=60), "1 minute ago", "il y a 1 minute"),
        (timedelta(hours=23, minutes=59), "23 hours ago", "il y a 23 heures"),
        (timedelta(days=1), "1 day ago", "il y a 1 jour"),
        (timedelta(days=400), "400 days ago", "il y a 400 jours"),
    ],
)
def test_age_is_in_its_largest_unit(age: timedelta, english: str, french: str):
    """Ages are told in whole days, hours or minutes."""
    told = [words.age(NOW - age, now=NOW) for words in (ENGLISH, FRENCH)]

    assert [english, french] == told


@pytest.mark.parametrize(
    ("month", "day", "hour", "shown"),
    [
        (3, 29, 0, "Mar 29, 2026, 01:00"),
        (3, 29, 1, "Mar 29, 2026, 03:00"),
        (10, 25, 0, "Oct 25, 2026, 02:00"),
        (10, 25, 1, "Oct 25, 2026, 02:00"),
        (12, 31, 23, "Jan 1, 2027, 00:00"),
    ],
)
def test_instants_are_local(month: int, day: int, hour: int, shown: str):
    """On the nights the clocks change, too."""
    instant = datetime(2026, month, day, hour, tzinfo=UTC)

    assert shown == ENGLISH.instant(instant)


def test_plural_follows_the_language():
    """French has no plural for zero."""
    assert ["0 rows", "1 row"] == [ENGLISH.say("rows", n) for n in (0, 1)]
    assert ["0 ligne", "2 lignes"] == [FRENCH.say("rows", n) for n in (0, 2)]


def test_value_with_braces_is_text():
    """What a tenant writes is never a sentence of ours."""
    words = Words(Locale("en"), {"a": "by {name}"}, UTC)

    assert "by {count.__class__} %s" == words.say("a", name="{count.__class__} %s")
