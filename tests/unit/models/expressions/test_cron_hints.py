"""What is offered for rules of other schedulers means the same, and is accepted."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.door.documents import read_action
from models.errors import RuleError
from models.expressions.cron import CronExpression
from models.expressions.cron_hints import find_both_days
from tests.unit.models.documents import action
from tests.unit.models.expressions.cron_rules import cron_rules, words_like_rules

#: Longer than what messages repeat of a rule.
DAYS = ",".join(map(str, range(1, 27)))

#: A rule of another dialect, and what to write instead: rules or JSON.
MEANT = [
    ("0 7 * * FRI-SUN", ["0 7 * * 5-6,0"]),
    # a year: the sixth field, or AWS, where Sunday is 1
    ("0 7 * * 1 2026", ["0 7 * * 1", '{"calendar": "Mon 2026-*-* 07:00:00"}']),
    ("0 7 * * 1 *", ["7 * * 1 *", "0 7 * * 1"]),
    ("0 7 * * MON-FRI *", ["0 7 * * MON-FRI"]),
    ("0 12 * * ? *", ["0 12 * * *"]),
    ("cron(0 12 * * ? *)", ["0 12 * * *"]),
    ("cron(0 8 ? * 2-6 *)", ["0 8 * * 1-5"]),
    ("cron(0 8 ? * 6#3 *)", ["0 8 * * 5#3"]),
    ("cron(15 10 ? * 6L 2030-2031)", ["15 10 * * 5L"]),
    ("rate(5 minutes)", ['{"every": "PT5M"}']),
    ("rate(1 day)", ['{"every": "PT24H"}']),
    # seconds first: Quartz, Spring
    ("0 0 7 * * 1", ["0 7 * * 1"]),
    # ... also a rule that is longer than what messages repeat
    (f"0 0 7 {DAYS} * *", [f"0 7 {DAYS} * *"]),
    ("30 0 12 * * *", ["0 12 * * *", '{"calendar": "*-*-* 12:00:30"}']),
    ("0 0 12 ? * MON-FRI", ["0 12 * * MON-FRI"]),
    ("0 0 12 ? * 2-6", ["0 12 * * 1-5", "0 12 * * 2-6"]),
    ("0 15 10 L-2 * ?", ['{"calendar": "*-*~03 10:15:00"}']),
    ("0 0 9 LW * ?", ["0 9 LW * *"]),
    ("0 15 10 ? * 6L 2030", ["15 10 * * 5L"]),
    # the end of a month
    ("0 7 L-1 * *", ['{"calendar": "*-*~02 07:00:00"}']),
    ("*/15 8-18 L-1 3,6 *", ['{"calendar": "*-03,06~02 08..18:00/15:00"}']),
    ("0 7 * * FRIL", ["0 7 * * 5L"]),
    ("0 7 * * LFRI", ["0 7 * * 5L"]),
    ("0 7 * * MON#-1", ["0 7 * * 1L"]),
    ("0 7 * * tue#L", ["0 7 * * 2L"]),
    ("0 7 * * 5#-1", ["0 7 * * 5L"]),
    ("0 7 * * last-fri", ["0 7 * * 5L"]),
    ("0 0 12 ? * MON#-1", ["0 12 * * 1L"]),
    ("0 0 12 ? * 6#L", ["0 12 * * 5L", "0 12 * * 6L"]),
    ("0 7 last * *", ["0 7 L * *"]),
    ("0 7 -1 * *", ["0 7 L * *"]),
    ("0 7 -3 * *", ['{"calendar": "*-*~03 07:00:00"}']),
    # names in full
    ("0 7 * * SUNDAY", ["0 7 * * SUN"]),
    ("0 7 * FEBRUARY *", ["0 7 * FEB *"]),
    ("0 7 * march-june tues,Thursdays", ["0 7 * MAR-JUN TUE,THU"]),
    ("0 0 7 ? * MONDAY", ["0 7 * * MON"]),
    # once, of AWS
    ("at(2026-12-01T09:00:00)", ['{"due_date": "2026-12-01T09:00:00"}']),
    # intervals of Go libraries, and of FreeBSD
    ("@every_minute", ['{"every": "PT1M"}']),
    ("@every_second", ['{"every": "PT1S"}']),
    ("@every hour", ['{"every": "PT1H"}']),
    ("@every full moon", ['{"every": "PT1M"}']),
    ("@every 5m", ['{"every": "PT5M"}']),
    ("@every 1h30m", ['{"every": "PT1H30M"}']),
    ("@every 5 minutes", ['{"every": "PT5M"}']),
    ("@every 30s", ['{"every": "PT30S"}']),
    # a crontab of the system
    ("0 7 * * 1 root /bin/true", ["0 7 * * 1"]),
    ("0 7 * * 1 root", ["0 7 * * 1"]),
    ("*/90 * * * *", ['{"every": "PT90M"}']),
    (
        "CRON_TZ=Europe/Paris 0 7 * * 1",
        ['{"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"}'],
    ),
    ("0 */30 * * *", ['{"every": "PT30H"}']),
]


def test_step_that_is_too_long_is_told_what_it_does() -> None:
    """Other crons read hour 0 alone, so it runs at midnight."""
    with pytest.raises(RuleError) as caught:
        CronExpression.parse("0 */25 * * *")

    assert "so this is hour 0 (midnight) alone: write 0;" in caught.value.hint


def find_offers(hint: str) -> list[str]:
    """Return what *hint* offers to copy: JSON objects and rules."""
    return re.findall(r"\{[^}]*\}|(?<=')[0-9*][^']* [^']*(?=')", hint)


def read(offer: str) -> None:
    """Read *offer* as whoever copies it would post it."""
    if offer.startswith("{"):
        # what is due more often than once a minute may have no other step
        steps = {"run_task": {"name": "a", "queue": "b"}}
        read_action(action(when=json.loads(offer), operations=steps))
    else:
        read_action(action(when={"cron_rule": offer}))


@pytest.mark.parametrize(("text", "offers"), MEANT)
def test_other_dialect_is_spelled_out(text: str, offers: list[str]) -> None:
    """The hint has the rule as it is written here, and each is accepted."""
    with pytest.raises(RuleError) as caught:
        CronExpression.parse(text)

    assert offers == find_offers(caught.value.hint)
    for each in offers:
        read(each)


def test_year_is_called_a_year() -> None:
    """Whoever wrote a year is not told to leave out the seconds."""
    with pytest.raises(RuleError) as caught:
        CronExpression.parse("cron(0 12 * * ? *)")

    assert "Leave out the year: '0 12 * * *'." == caught.value.hint


def test_years_become_bounds() -> None:
    """They are not just left out: the action would run in all others, too."""
    with pytest.raises(RuleError) as caught:
        CronExpression.parse("0 0 12 ? * 2#1 2027")

    assert '"starts_at" and "ends_at" beside "when"' in caught.value.hint


@given(
    st.one_of(
        words_like_rules(),
        # a good rule with one word more, or one changed
        st.builds("{} {}".format, st.sampled_from(["0", "*", "30", "?"]), cron_rules()),
        st.builds("{} {}".format, cron_rules(), st.sampled_from(["*", "?", "2027"])),
        cron_rules().map(lambda rule: rule.replace("*", "?")),
        cron_rules().map(lambda rule: rule.replace("0", "H", 1)),
        st.datetimes().map(lambda at: f"at({at.isoformat()})"),
        cron_rules().map(lambda rule: re.sub(r"(\d+)-(\d+)", r"\2-\1", rule)),
    )
)
def test_no_hint_is_itself_refused(text: str) -> None:
    """Whatever a refusal offers can be posted."""
    try:
        CronExpression.parse(text)
    except RuleError as error:
        for offer in find_offers(error.hint):
            read(offer)


@pytest.mark.parametrize(
    ("rule", "instead"),
    [
        ("0 9 1-7 * 1", "'0 9 * * 1#1'"),
        ("0 9 8-14 * 1", "'0 9 * * 1#2'"),
        ("0 9 2-8 * 1", '{"calendar": "Mon *-*-02..08 09:00:00"}'),
        ("0 0 13 * 5", '{"calendar": "Fri *-*-13 00:00:00"}'),
        ("0 0 13 * 5L", ""),
        ("0 9 * * 1", None),
        ("0 9 */2 * 1", None),
        ("0 9 1-7 * *", None),
    ],
)
def test_days_that_match_both_fields(rule: str, instead: str | None) -> None:
    """A first Monday is asked for as 1#1; a Friday the 13th needs a calendar rule."""
    assert instead == find_both_days(rule)
    for each in find_offers(instead or ""):
        read(each)
