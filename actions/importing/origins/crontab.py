"""Lines of a crontab file, as Debian's cron and cronie read it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from actions.importing.origins.imported import ActionDraft, CannotBeError, Defaults
from actions.importing.origins.tasks import Task, run_task
from models.errors import RuleError
from models.expressions.cron import CronExpression

_SETTING = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|\"[^\"]+\"|'[^']+')\s*=\s*(.*)")
_USER = re.compile(r"[a-z_][a-z0-9_.-]*\$?")

#: Settings that say when; all others are for the command.
_ZONE, _SPREAD = "CRON_TZ", "RANDOM_DELAY"

#: Letters of a command that name an action.
_LONGEST_NAME = 80

_WEEKDAYS = (
    *("Sunday", "Monday", "Tuesday", "Wednesday"),
    *("Thursday", "Friday", "Saturday"),
)


@dataclass(frozen=True, slots=True)
class CrontabLine:
    """
    A line that runs something.

    Args:
        number: From 1.
        rule: Five fields, or a word such as "@daily".
        command: As cron would give it to the shell; "%" is not read yet.
        user: Whose command it is. None: the crontab is that user's.
        timezone: Of CRON_TZ. None: that of the host.
        spread: Minutes of RANDOM_DELAY; 0: none.

    """

    number: int
    rule: str
    command: str
    user: str | None = None
    timezone: str | None = None
    spread: int = 0

    @property
    def title(self) -> str:
        """Return what the report calls it."""
        words = " ".join(self.command.split())
        short = words if len(words) <= _LONGEST_NAME else words[:_LONGEST_NAME] + "…"
        return short or f"line {self.number}"


def read_crontab(text: str, *, has_user: bool) -> Iterator[CrontabLine]:
    """
    Yield the lines of a crontab that run something.

    Args:
        text: Of the whole file.
        has_user: Whether a user is between rule and command, as in /etc/crontab.
    """
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        setting = _SETTING.fullmatch(line)
        if setting is not None:
            settings[setting[1].strip("\"'")] = setting[2].strip().strip("\"'")
            continue
        yield _read_line(number, stripped, settings, has_user=has_user)


def has_users(text: str) -> bool:
    """Tell whether the lines of *text* look like those of /etc/crontab."""
    lines = list(read_crontab(text, has_user=False))
    firsts = [line.command.split(maxsplit=1) for line in lines]
    return (
        bool(firsts)
        and all(len(words) == 2 and _USER.fullmatch(words[0]) for words in firsts)
        and any(words[0] == "root" for words in firsts)
    )


def _read_line(
    number: int, line: str, settings: dict[str, str], *, has_user: bool
) -> CrontabLine:
    count = 1 if line.startswith("@") else 5
    words = line.split(maxsplit=count)
    rule, rest = " ".join(words[:count]), "".join(words[count:])
    user = None
    if has_user:
        user, rest = [*rest.split(maxsplit=1), "", ""][:2]
    spread = settings.get(_SPREAD, "")
    return CrontabLine(
        number,
        rule,
        rest.strip(),
        user or None,
        settings.get(_ZONE),
        int(spread) if spread.isdecimal() else 0,
    )


def explain_settings(text: str) -> list[str]:
    """Return what becomes of the settings of a crontab that are not about time."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        setting = _SETTING.fullmatch(line)
        if setting is not None:
            found.setdefault(setting[1].strip("\"'"), []).append(number)
    told = {
        name: f"{name} (line {', '.join(map(str, numbers))})"
        for name, numbers in found.items()
        if name not in {_ZONE, _SPREAD}
    }
    notes = []
    if mail := told.pop("MAILTO", None):
        notes.append(
            f"{mail}: nobody gets the output of a task; notices tell of what fails"
            " (docs/notices.md)."
        )
    if zone := told.pop("TZ", None):
        notes.append(f"{zone}: it moves no rule, as in Debian's cron; CRON_TZ does.")
    if told:
        notes.append(
            f"{', '.join(told.values())}: set it where the task runs; values are not"
            " copied."
        )
    return notes


def fill_from_crontab(
    draft: ActionDraft, line: CrontabLine, defaults: Defaults
) -> None:
    """Write the action that does what *line* did; see ``import_each``."""
    draft.rule = line.rule
    if line.rule.startswith("@reboot"):
        msg = (
            "It runs when a machine starts, which is not a time. Let the system that"
            " starts the machine run it: a unit of systemd, or the container's start."
        )
        raise CannotBeError(msg)
    if not line.command:
        msg = f"Line {line.number} has no command; cron ignores it, too."
        raise CannotBeError(msg)
    if line.rule.startswith("-"):
        draft.remarks.append("Its '-' kept cron from logging; it is left out.")
    draft.document["when"] = {
        "cron_rule": line.rule.removeprefix("-"),
        "timezone": line.timezone or defaults.timezone,
    }
    if line.spread:
        draft.document["jitter"] = f"PT{line.spread}M"
        draft.differences.append(
            "RANDOM_DELAY draws a delay for all jobs; jitter keeps one for each action."
        )
    draft.remarks += explain_days(line.rule.removeprefix("-"))
    _add_command(draft, line, defaults)


def _add_command(draft: ActionDraft, line: CrontabLine, defaults: Defaults) -> None:
    command, given = _split_input(line.command)
    kwargs: dict[str, object] = {"command": command}
    if line.user is not None:
        kwargs["user"] = line.user
    if given:
        kwargs["input"] = given
    run_task(draft, Task(defaults.task, kwargs=kwargs), defaults)


def _split_input(command: str) -> tuple[str, str]:
    """Return the command, and after its first bare "%" what it reads as input."""
    parts = re.split(r"(?<!\\)%", command)
    plain = [part.replace("\\%", "%") for part in parts]
    return plain[0].strip(), "\n".join(plain[1:])


def explain_days(rule: str) -> list[str]:
    """
    Return what whoever wrote *rule* may not have meant, if it has two day fields.

    >>> explain_days("0 9 1,15 * 5")[0][:47]
    'It runs on days 1,15 and on every Friday as wel'
    """
    words = rule.split()
    if len(words) != 5 or words[2][0] in "*?" or words[4][0] in "*?":
        return []
    weekday = _read_weekday(words[4])
    note = (
        f"It runs on days {words[2]} and on every"
        f" {words[4] if weekday is None else _WEEKDAYS[weekday]} as well: with two day"
        " fields either of them is enough."
    )
    first = _find_week(words)
    if first is not None:
        note += f" If {first[0]} was meant, write '{first[1]}'."
    return [note]


def _read_weekday(word: str) -> int | None:
    """Return the weekday that *word* is (Sunday is 0); None if it is several."""
    try:
        field = CronExpression.parse(f"0 0 * * {word}").canonical.split()[4]
    except RuleError:
        return None
    return int(field) % 7 if re.fullmatch(r"[0-7]", field) else None


def _find_week(words: list[str]) -> tuple[str, str] | None:
    """Return which week of the month was probably meant, and the rule for it."""
    weekday = _read_weekday(words[4])
    try:
        numbers = CronExpression.parse(f"0 0 {words[2]} * *")
    except RuleError:
        return None
    days = {day for day in range(1, 32) if numbers.day_mask(31, 0) >> day & 1}
    week = min(days) // 7 + 1
    if weekday is None or days != set(range(7 * week - 6, 7 * week + 1)):
        return None
    name = _WEEKDAYS[weekday]
    ordinal = ("first", "second", "third", "fourth")[week - 1]
    rule = " ".join([*words[:2], "*", words[3], f"{name[:3].upper()}#{week}"])
    return f"the {ordinal} {name} of the month", rule
