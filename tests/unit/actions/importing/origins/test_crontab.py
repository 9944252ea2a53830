"""Lines of crontab files, as Debian's cron and cronie read them."""

from __future__ import annotations

import pytest

from actions.importing.origins.crontab import CRONTAB, read_crontab
from actions.importing.origins.imported import Imported, ImportVerdict
from tests.unit.actions.importing.documents import (
    get_document,
    get_step,
    get_when,
    import_one,
)

EXACT, DIFFERS = ImportVerdict.EXACT, ImportVerdict.DIFFERS

SYSTEM = """
# m h dom mon dow user command
SHELL=/bin/sh
MAILTO = "root"
17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly
@daily root backup
CRON_TZ='Europe/Berlin'
RANDOM_DELAY=45
  30 5 * * 1 www-data  report
"""


def lines(text: str, *, has_user: bool | None = None) -> list[Imported]:
    found, _notes = read_crontab(text, has_user=has_user)
    return [import_one(line, CRONTAB) for line in found]


def line(text: str) -> Imported:
    (found,) = lines(text)
    return found


def test_lines_of_a_system_crontab():
    """Settings count from their line on; the user stands before the command."""
    hourly, daily, weekly = lines(SYSTEM)

    assert get_when(hourly) == {"cron_rule": "17 * * * *", "timezone": "Europe/Paris"}
    assert get_step(hourly)["name"] == "run_it"
    assert get_step(hourly)["kwargs"] == {
        "command": "cd / && run-parts --report /etc/cron.hourly",
        "user": "root",
    }
    assert get_when(daily)["cron_rule"] == "@daily"
    assert get_step(daily)["kwargs"] == {"command": "backup", "user": "root"}
    assert get_when(weekly)["timezone"] == "Europe/Berlin"
    assert get_document(weekly)["jitter"] == "PT45M"
    assert [hourly.verdict, daily.verdict, weekly.verdict] == [EXACT, EXACT, DIFFERS]


@pytest.mark.parametrize(
    ("text", "users", "doubt"),
    [
        # root, and names that are no commands, are users
        ("0 5 * * * root /a\n0 6 * * * joe b c\n", ["root", "joe"], ""),
        # a name before a path may be either, and so may a name that all lines have
        ("0 5 * * * joe /srv/a\n0 6 * * * ann /srv/b\n", ["joe", "ann"], "--personal"),
        ("0 5 * * * joe /srv/a\n", ["joe"], "--personal"),
        ("0 5 * * * shopctl a\n0 6 * * * shopctl b\n", [None, None], "--system"),
        # a program that takes a path is no user
        ("0 5 * * * php /srv/a.php\n0 6 * * * php /srv/b.php\n", [None, None], ""),
        ("0 5 * * * joe /srv/a\n0 6 * * * /srv/b\n", [None, None], ""),
        ("0 7 * * * report --all\n", [None], ""),
        ("0 7 * * * root\n", [None], ""),
    ],
)
def test_users_are_found_out(text: str, users: list[str | None], doubt: str):
    """A crontab of one user has no user in its lines; what is in doubt differs."""
    found = lines(text)

    assert users == [get_step(each)["kwargs"].get("user") for each in found]
    assert {DIFFERS if doubt else EXACT} == {each.verdict for each in found}
    assert all(doubt in "".join(each.notes) for each in found)


def test_user_that_was_told_is_in_no_doubt():
    """Whoever imports knows the file."""
    text = "0 5 * * * joe /srv/a\n"
    (system,), (personal,) = lines(text, has_user=True), lines(text, has_user=False)

    assert get_step(system)["kwargs"] == {"command": "/srv/a", "user": "joe"}
    assert get_step(personal)["kwargs"] == {"command": "joe /srv/a"}
    assert [system.verdict, personal.verdict] == [EXACT, EXACT]


def test_settings_are_told_with_their_lines_and_without_values():
    """A password in a crontab is not copied anywhere; how it was read is said first."""
    _lines, notes = read_crontab("TZ=UTC\nMAILTO=a@b\nPGPASSWORD=geheim\n")
    told = " ".join(notes)

    assert "crontab of one user" in notes[0]
    assert "a system file" in read_crontab(SYSTEM)[1][0]
    assert "MAILTO (line 2)" in told
    assert "PGPASSWORD (line 3)" in told
    assert "geheim" not in told
    assert "TZ moves no rule" in told


@pytest.mark.parametrize("name", ['" "', "' '", '"\'"', "'\"'"])
def test_name_of_nothing_is_told_as_it_is_written(name: str):
    """A setting whose name is only blanks or quotes is not told as an empty name."""
    _lines, notes = read_crontab(f"A=1\n{name} = x\n")

    assert f"A (line 1), {name} (line 2): " in notes[1]


@pytest.mark.parametrize(
    ("text", "rule", "words"),
    [
        ("CRON_TZ=Asia/Tokyo\n0 5 * * * a b", "0 5 * * *", "does: CRON_TZ moves"),
        ("RANDOM_DELAY=9\n0 5 * * * a b", "0 5 * * *", "RANDOM_DELAY"),
        ("0 5 L * * a b", "0 5 L * *", "refuse 'L'"),
        ("0 5 LW * * a b", "0 5 LW * *", "last working day"),
        ("0 5 * * mon#1 a b", "0 5 * * mon#1", "refuse 'MON#1'"),
        ("0 5 * * 5L a b", "0 5 * * 5L", "refuse '5L'"),
        ("5/15 * * * * a b", "5/15 * * * *", "refuse '5/15'"),
        # what both crons read alike
        ("CRON_TZ=Europe/Paris\n0 5 * * * a b", "0 5 * * *", ""),
        ("*/5 0-8/2 * jul sun a b", "*/5 0-8/2 * jul sun", ""),
    ],
)
def test_what_crons_read_otherwise_differs(text: str, rule: str, words: str):
    """A rule is exact where Debian's cron and cronie have it; else who has is said."""
    found = line(text)

    assert get_when(found)["cron_rule"] == rule
    assert found.verdict is (DIFFERS if words else EXACT)
    assert words in "".join(found.notes)


def test_mark_of_cronie_is_left_out():
    """A "-" before the fields keeps cronie from logging."""
    found = line("-0 5 * * * x")

    assert get_when(found)["cron_rule"] == "0 5 * * *"
    assert "logging" in found.notes[0]


def test_percent_begins_the_input():
    """As crontab(5) says: the first bare one ends the command, others are line ends."""
    step = get_step(line(r"0 5 * * * date +\%F; mail joe%hello%you"))

    assert step["kwargs"] == {"command": "date +%F; mail joe", "input": "hello\nyou"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@reboot x", "starts"),
        ("0 5 * * *", "no command"),
        ("0 5", "no command"),
        ("61 * * * * x", "minute 61"),
        ("0~30 5 * * * x", "jitter"),
        ("@every 5m x", '{"every": "PT5M"}'),
    ],
)
def test_what_cannot_be_says_why(text: str, words: str):
    """One bad line is one report."""
    found = line(text)

    assert ImportVerdict.CANNOT_BE is found.verdict
    assert words in found.notes[0]


def test_two_day_fields_are_explained():
    """Either of them is enough, which few people mean."""
    found = line("0 9 1-7 * MON x")

    assert found.verdict is EXACT
    assert "write '0 9 * * 1#1'" in found.notes[0]
