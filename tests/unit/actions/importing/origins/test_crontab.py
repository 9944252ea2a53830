"""Lines of crontab files, as Debian's cron and cronie read them."""

from __future__ import annotations

import pytest

from actions.importing.origins.crontab import (
    CrontabLine,
    explain_days,
    explain_settings,
    fill_from_crontab,
    has_users,
    read_crontab,
)
from actions.importing.origins.imported import ImportVerdict
from tests.unit.actions.importing.documents import get_step, get_when, import_one

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


def test_lines_of_a_system_crontab():
    """
    Settings count from their line on; the user stands before the command.
    """
    hourly, daily, weekly = read_crontab(SYSTEM, has_user=True)

    assert hourly.rule == "17 * * * *"
    assert (hourly.user, hourly.command[:9]) == ("root", "cd / && r")
    assert (daily.rule, daily.user, daily.command) == ("@daily", "root", "backup")
    assert (weekly.timezone, weekly.spread) == ("Europe/Berlin", 45)
    assert (hourly.timezone, hourly.spread) == (None, 0)


def test_users_are_found_out():
    """
    A crontab of one user has no user in its lines.
    """
    assert has_users(SYSTEM)
    assert not has_users("0 7 * * * report --all\n")
    assert not has_users("0 7 * * * root\n")
    assert not has_users("")


def test_settings_are_told_with_their_lines_and_without_values():
    """
    A password in a crontab is not copied anywhere.
    """
    notes = " ".join(explain_settings("TZ=UTC\nMAILTO=a@b\nPGPASSWORD=geheim\n"))

    assert "MAILTO (line 2)" in notes
    assert "PGPASSWORD (line 3)" in notes
    assert "geheim" not in notes
    assert "CRON_TZ does" in notes


def test_delay_of_cronie_is_jitter():
    """
    RANDOM_DELAY is said to be another delay than ours.
    """
    line = CrontabLine(1, "0 5 * * *", "x", timezone="Europe/Berlin", spread=45)
    found = import_one(line, fill_from_crontab)
    assert found.document is not None

    assert found.document["jitter"] == "PT45M"
    assert get_when(found)["timezone"] == "Europe/Berlin"
    assert ImportVerdict.DIFFERS is found.verdict


def test_mark_of_cronie_is_left_out():
    """
    A "-" before the fields keeps cronie from logging.
    """
    found = import_one(CrontabLine(1, "-0 5 * * *", "x"), fill_from_crontab)

    assert get_when(found)["cron_rule"] == "0 5 * * *"
    assert "logging" in found.notes[0]


def test_percent_begins_the_input():
    """
    As crontab(5) says: the first bare one ends the command, others are line ends.
    """
    line = CrontabLine(1, "0 5 * * *", r"date +\%F; mail joe%hello%you", "root")
    step = get_step(import_one(line, fill_from_crontab))

    assert step["name"] == "run_it"
    assert step["kwargs"] == {
        "command": "date +%F; mail joe",
        "user": "root",
        "input": "hello\nyou",
    }


@pytest.mark.parametrize(
    ("rule", "command", "words"),
    [
        ("@reboot", "x", "starts"),
        ("0 5 * * *", "", "no command"),
        ("61 * * * *", "x", "minute 61"),
        ("0~30 5 * * *", "x", "jitter"),
        ("@every", "5m x", "interval"),
        ("0 5", "", "no command"),
    ],
)
def test_what_cannot_be_says_why(rule: str, command: str, words: str):
    """
    One bad line is one report.
    """
    found = import_one(CrontabLine(1, rule, command), fill_from_crontab)

    assert ImportVerdict.CANNOT_BE is found.verdict
    assert words in found.notes[0]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("0 0 1,15 * 5", "every Friday as well"),
        ("0 9 1-7 * MON", "write '0 9 * * MON#1'"),
        ("0 9 22-28 6 0", "write '0 9 * 6 SUN#4'"),
        ("0 9 1-7 * 1-5", "every 1-5 as well"),
    ],
)
def test_two_day_fields_are_explained(rule: str, words: str):
    """
    Either of two day fields is enough, which few people mean.
    """
    assert words in explain_days(rule)[0]


@pytest.mark.parametrize("rule", ["0 9 * * 1", "0 9 1 * *", "0 9 */2 * 1", "@daily"])
def test_one_day_field_needs_no_words(rule: str):
    """
    With a star in one of them, both must hold, or one is alone.
    """
    assert explain_days(rule) == []
