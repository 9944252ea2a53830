"""Lines of a crontab file, as Debian's cron and cronie read them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actions.importing.origins.imported import ActionDraft, Entry, Table, refuse
from actions.importing.origins.tasks import run_task

_SETTING = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|\"[^\"]+\"|'[^']+')\s*=\s*(.*)")
_USER = re.compile(r"[a-z_][a-z0-9_.-]*\$?")

#: Settings that say when; all others are for the command.
_ZONE, _SPREAD = "CRON_TZ", "RANDOM_DELAY"

#: Users of a system that are no commands, and commands that take a path.
_USERS = frozenset({"root", "nobody", "daemon", "www-data", "postgres"})
_COMMANDS = frozenset(
    {
        *("awk", "bash", "bundle", "cat", "cd", "chown", "chronic", "chmod", "cp"),
        *("curl", "dash", "docker", "env", "exec", "find", "flock", "ionice", "java"),
        *("ln", "logger", "ls", "mkdir", "mv", "nice", "node", "perl", "php", "python"),
        *("python3", "rm", "rsync", "ruby", "sh", "source", "sudo", "tar", "test"),
        *("timeout", "touch", "wget", "zsh"),
    }
)

#: What both crons refuse in a field, and what it is here.
_FOREIGN = {
    r"L": "the last day of the month",
    r"LW": "the last working day of the month",
    r"[0-7]L": "the last such weekday of the month",
    r"\w+#\d": "the weekday with that place in the month",
    r"\w+/\d+": "every step from there to the end",
}

#: Letters of a command that name an action.
_LONGEST_NAME = 80


def read_crontab(
    text: str, *, has_user: bool | None = None
) -> tuple[list[Entry], list[str]]:
    """
    Return the lines of a crontab that run something, and how all of it was read.

    Args:
        text: Of the whole file.
        has_user: Whether a user is between rule and command, as in /etc/crontab. None:
            it is found out, and each line says so if that was in doubt.
    """
    lines, settings = _read_lines(text)
    doubt = ""
    if has_user is None:
        has_user, doubt = _find_users([str(line["command"]) for line in lines])
    found = []
    for line in lines:
        command = str(line["command"])
        first, *rest = [*command.split(maxsplit=1), ""]
        if has_user:
            line |= {"user": first or None, "command": "".join(rest).strip()}
        line["doubt"] = doubt.format(repr(first)) if first else ""
        words = " ".join(str(line["command"]).split())
        short = words if len(words) <= _LONGEST_NAME else words[:_LONGEST_NAME] + "…"
        found.append(Entry(short or f"line {line['number']}", line))
    reading = (
        "Read as a system file, whose lines have a user; if they have none: --personal."
        if has_user
        else "Read as the crontab of one user; if its lines have a user: --system."
    )
    return found, [reading, *_explain_settings(settings)]


def _read_lines(text: str) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """Return the lines that run something, and on which lines what else is set."""
    holds: dict[str, str] = {}
    others: dict[str, list[str]] = {}
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        setting = _SETTING.fullmatch(line)
        if setting is not None:
            given, value = (each.strip() for each in setting.groups())
            name = given.strip("\"'")
            if not name.strip():  # only quotes or blanks
                name = given
            holds[name] = value.strip("\"'")
            if name not in {_ZONE, _SPREAD}:
                others.setdefault(name, []).append(str(number))
            continue
        count = 1 if stripped.startswith("@") else 5
        if re.match(r"@every\s", stripped):  # no rule of cron, and of two words
            count = 2
        words = stripped.split(maxsplit=count)
        found.append(
            {
                "number": number,
                "rule": " ".join(words[:count]),
                "command": "".join(words[count:]).strip(),
                "timezone": holds.get(_ZONE),
                "spread": holds.get(_SPREAD),
            }
        )
    return found, others


def _find_users(commands: Sequence[str]) -> tuple[bool, str]:
    """Tell whether commands begin with a user; and what to say if that is in doubt."""
    words = [command.split(maxsplit=1) for command in commands]
    if not words or not all(
        len(each) == 2 and _USER.fullmatch(each[0]) and each[0] not in _COMMANDS
        for each in words
    ):
        return False, ""
    firsts = {first for first, _rest in words}
    if firsts & _USERS:
        return True, ""
    if all(rest.startswith("/") for _first, rest in words):
        return True, (
            "Read as a line of a system file: {} is its user. If that is the command,"
            " import with --personal."
        )
    if len(firsts) == 1 and len(words) > 1:
        return False, (
            "Read as a line of one user's crontab: {} is its command. If that is a"
            " user, import with --system."
        )
    return False, ""


def _explain_settings(settings: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what becomes of the settings of a crontab that are not about time."""
    if not settings:
        return []
    named = ", ".join(
        f"{name} (line {', '.join(numbers)})" for name, numbers in settings.items()
    )
    said = "values are not copied. Set where the task runs what it needs; notices tell"
    return [f"{named}: {said} of what fails, and TZ moves no rule."]


def _read_rule(draft: ActionDraft, rule: str) -> None:
    draft.rule = rule
    fields = draft.fields
    if rule.startswith("@reboot"):
        refuse(
            "It runs when a machine starts, which is not a time. Let the system that"
            " starts the machine run it: a unit of systemd, or the container's start."
        )
    if not fields["command"]:
        refuse(f"Line {fields['number']} has no command; cron ignores it, too.")
    if rule.startswith("-"):
        draft.remarks.append("Its '-' kept cronie from logging; it is left out.")
    rule = rule.removeprefix("-")
    zone = fields.get("timezone") or draft.defaults.timezone
    draft.document["when"] = {"cron_rule": rule, "timezone": zone}
    if fields.get("doubt"):
        draft.differences.append(fields["doubt"])
    if zone != draft.defaults.timezone:
        draft.differences.append(
            f"Read as cronie does: {_ZONE} moves the rule to {zone}. Debian's cron"
            " leaves it to the command, and goes by the zone of its host (--timezone)."
        )
    draft.differences += _explain_foreign(rule)


def _read_spread(draft: ActionDraft, minutes: str | None) -> None:
    if minutes and minutes.isdecimal() and int(minutes):
        draft.document["jitter"] = f"PT{int(minutes)}M"
        draft.differences.append(
            "RANDOM_DELAY draws a delay for all jobs; jitter keeps one for each action."
        )


def _read_command(draft: ActionDraft, command: str) -> None:
    """Send it; what follows its first bare "%" is what the command reads."""
    parts = re.split(r"(?<!\\)%", command)
    plain = [part.replace("\\%", "%") for part in parts]
    kwargs: dict[str, object] = {"command": plain[0].strip()}
    if draft.fields.get("user") is not None:
        kwargs["user"] = draft.fields["user"]
    if any(plain[1:]):
        kwargs["input"] = "\n".join(plain[1:])
    run_task(draft, draft.defaults.task, kwargs=kwargs)


def _explain_foreign(rule: str) -> Iterator[str]:
    """Yield what cron would have refused, though it is a rule here."""
    for word in rule.upper().split():
        for term in word.split(","):
            for pattern, meaning in _FOREIGN.items():
                if not term.startswith("@") and re.fullmatch(pattern, term):
                    yield (
                        f"Debian's cron and cronie refuse {term!r}, so it never ran"
                        f" there; here it is {meaning}."
                    )
                    break


#: A line, with the CRON_TZ and RANDOM_DELAY that hold for it, and what is in doubt.
CRONTAB: Table = {"rule": _read_rule, "spread": _read_spread, "command": _read_command}
