"""
What to write instead of a rule that another scheduler would take. Pure.

People bring rules of Quartz, Spring, AWS, Jenkins and Go libraries, which look alike
and mean other things: a field of seconds or years, Sunday as 1.
What is offered here was read before it is shown, so no hint is itself refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from models.errors import RuleError
from models.expressions.calendar import CalendarExpression
from models.expressions.cron_fields import FIELDS, CronField, parse_fields
from models.fields.duration import write_elapsed
from models.fields.field_types import DAY_NAMES, MONTHS, WEEKDAYS
from models.fields.instants import parse_due_date
from models.fields.zone import load_zone

#: Tells whether a text is a cron rule that is due some day.
Accepts = Callable[[str], bool]

#: Characters of a rule that is looked at, and of one that is offered.
_LONGEST = 120

_FIELD_COUNT = len(FIELDS)
_DAY, _WEEKDAY = 2, 4
_WEEK = 7

#: Of an interval; longer ones are refused.
_LONGEST_S = 800_000 * 3600

_YEAR = re.compile(r"\*|(?:19|20|21)[0-9]{2}(?:[-,/][0-9,/-]*)?")
#: What a field of a rule may look like, in any dialect; a user or command does not.
_NAMES = "|".join(name for each in FIELDS for name in each.names)
_LIKE_FIELD = re.compile(
    r"[0-9*?][0-9*?A-Z,/#()-]*|[HR](?:[(/].*)?|L(?:W|-[0-9]+|[A-Z]{3})?"
    rf"|(?:{_NAMES})(?:[-,#L].*)?"
)
_FULL_NAMES = (
    *(f"{name.upper()}S" for name in DAY_NAMES),
    *(name.upper() for name in MONTHS),
)

_AWS = re.compile(r"\s*CRON\((.*)\)\s*")
_ELAPSED = re.compile(
    r"([0-9]{1,6})\s*(D|DAYS?|H|HRS?|HOURS?|M|MINS?|MINUTES?|S|SECS?|SECONDS?)(?![A-Z])"
)
_SECONDS_OF = {"D": 86_400, "H": 3600, "M": 60, "S": 1}

_FROM_END = re.compile(r"L-([0-9]{1,2})")
_NUMBER_OF_DAY = re.compile(r"(?<![/#0-9])(?<!#-)[1-7](?![0-9])")

#: Terms of other dialects: the place of their field, what they look like, what was
#: meant. _FROM_ONE is a day of the week where Sunday is 1, as in Quartz.
_FROM_ONE = -1
_TERMS: tuple[tuple[int, str, str | Callable[[re.Match[str]], str]], ...] = (
    (_DAY, r"^\?$", "*"),
    (_DAY, r"^(?:LAST|-1)$", "L"),
    (_DAY, r"^-([2-9]|1[0-9]|2[0-6])$", lambda found: f"L-{int(found[1]) - 1}"),
    (_WEEKDAY, r"^\?$", "*"),
    (_WEEKDAY, r"^([0-7]|[A-Z]{3})#(?:-1|L|LAST)$", r"\1L"),
    (_WEEKDAY, r"^L(?:AST)?-?([A-Z]{3})$", r"\1L"),
    (_FROM_ONE, r"^L$", "7"),
    (_FROM_ONE, _NUMBER_OF_DAY.pattern, lambda found: str(int(found[0]) - 1)),
    (
        _WEEKDAY,
        rf"^({'|'.join(FIELDS[_WEEKDAY].names)})(?=L$)",
        lambda found: str(FIELDS[_WEEKDAY].names.index(found[0])),
    ),
)


def find_hint(text: str, accepts: Accepts) -> str:
    """
    Return what to write instead of the refused rule *text*; "" if nobody can tell.

    Args:
        text: As its author wrote it.
        accepts: Asked of each cron rule before it is offered.
    """
    if len(text) > _LONGEST:
        return ""
    for pattern, offer_for in _WHOLE_RULES:
        whole = re.fullmatch(pattern, text.strip(), re.IGNORECASE)
        if whole is not None:
            return offer_for(whole, accepts)
    said = re.sub(r"[A-Z]{4,10}", _shorten, text.upper())
    aws = _AWS.fullmatch(said)
    words = (said if aws is None else aws[1]).split()
    offers = [offer for each in _find_readings(words) if (offer := each.offer(accepts))]
    hint = "; or ".join(offers)
    return f"{hint[:1].upper()}{hint[1:]}." if offers else ""


def _shorten(found: re.Match[str]) -> str:
    """Return the name that a longer one begins with; other words as they are."""
    is_name = any(name.startswith(found[0]) for name in _FULL_NAMES)
    return found[0][:3] if is_name else found[0]


def find_both_days(canonical: str) -> str | None:
    """
    Return how to ask for days that match both day fields; None if they do already.

    As in Debian's cron, a day needs to match one of the two unless either begins with
    a star, which is seldom what is meant by "0 9 1-7 * 1".

    Args:
        canonical: A rule, in canonical form.

    Returns:
        A rule in quotes, or JSON; "" if there is no such rule.
    """
    words = canonical.split()
    day, weekday = words[_DAY], words[_WEEKDAY]
    if day.startswith("*") or weekday.startswith("*"):
        return None
    weeks = re.fullmatch(r"([0-9]+)-([0-9]+)", day)
    if weeks is not None and re.fullmatch(r"[0-7]", weekday):
        first, last = int(weeks[1]), int(weeks[2])
        if last - first == _WEEK - 1 and first % _WEEK == 1:
            words[_DAY], words[_WEEKDAY] = "*", f"{weekday}#{first // _WEEK + 1}"
            return repr(" ".join(words))
    return _make_calendar(words, both=True)


@dataclass(frozen=True, slots=True)
class _Reading:
    """
    What the words of a rule may mean in another dialect.

    Args:
        words: Its five fields, in capitals.
        said: What to do with the rest, such as "leave out the seconds".
        second: The field of seconds. None: there is none.
        year: The field of years. None: there is none.
        from_one: Whether Sunday is 1, and not 0 or 7.
        where: In which dialects, if the rule does not tell.
    """

    words: Sequence[str]
    said: str = "Write"
    second: str | None = None
    year: str | None = None
    from_one: bool = False
    where: str = ""

    def offer(self, accepts: Accepts) -> str:
        """Return what to write; "" if it would be refused, too."""
        words = [
            _mend(word, place, from_one=self.from_one)
            for place, word in enumerate(self.words)
        ]
        rule = " ".join(words)
        exact = _make_calendar(words, self.second, self.year)
        if len(rule) > _LONGEST or not accepts(rule):
            from_end = _FROM_END.fullmatch(words[_DAY])
            return f"Write {exact}" if exact and from_end else ""
        offered = f"{self.said} {rule!r}{self.where}".lstrip()
        has_second = (self.second or "0").strip("0").isdecimal()
        if not has_second and (self.year or "*") == "*":
            return offered
        if exact:
            return f"{offered}; or write {exact}"
        return f'{offered}; years are "starts_at" and "ends_at" beside "when"'


def _find_readings(words: list[str]) -> Iterator[_Reading]:
    """Yield what *words* may mean, the likeliest first."""
    count = len(words)
    if count == _FIELD_COUNT:
        yield _Reading(words)
    elif count > _FIELD_COUNT and not _LIKE_FIELD.fullmatch(words[_FIELD_COUNT]):
        yield _Reading(words[:_FIELD_COUNT], "Leave out user and command:")
    elif count == _FIELD_COUNT + 1:
        yield from _find_readings_of_six(words)
    elif count == _FIELD_COUNT + 2 and _YEAR.fullmatch(words[-1]):
        said = "Leave out seconds and year:"
        yield _Reading(words[1:-1], said, words[0], words[-1], from_one=True)


def _find_readings_of_six(words: list[str]) -> Iterator[_Reading]:
    """Yield readings with seconds before, or a year behind."""
    said = "Leave out the seconds:"
    marks = {place for place, word in enumerate(words) if word == "?"}
    year = words[-1]
    if _YEAR.fullmatch(year) and not marks & {_DAY + 1, _WEEKDAY + 1}:
        with_year = _Reading(
            words[:-1], "Leave out the year:", year=year, from_one=bool(marks)
        )
        if marks or year != "*":
            yield with_year
            return
        yield _Reading(words[1:], said, words[0])
        if words[_WEEKDAY] != "*":
            yield _Reading(words[:-1], "if the last field is a year, leave it out:")
        return
    weekday = words[-1]
    if not marks or not _NUMBER_OF_DAY.search(weekday) or "0" in weekday:
        yield _Reading(words[1:], said, words[0])
        return
    quartz = " (if Sunday is 1, as in Quartz)"
    yield _Reading(words[1:], said, words[0], from_one=True, where=quartz)
    spring = " (if it is 0 or 7, as in Spring)"
    yield _Reading(words[1:], "", words[0], where=spring)


def _mend(word: str, place: int, *, from_one: bool) -> str:
    """Return the field *word*, as we write it; unknown terms stay as they are."""
    places = {place, _FROM_ONE} if from_one and place == _WEEKDAY else {place}
    terms = word.split(",")
    for where, pattern, meant in _TERMS:
        if where in places:
            terms = [re.sub(pattern, meant, term) for term in terms]
    return ",".join(_unwrap(term, FIELDS[place]) for term in terms)


def _unwrap(term: str, spec: CronField) -> str:
    """Return a range that runs backwards as two."""
    first, last = (_get_number(word, spec) for word in (*term.split("-"), "")[:2])
    if first is None or last is None or first <= last:
        return term
    return spec.spell_wrapped(first, last)


def _get_number(word: str, spec: CronField) -> int | None:
    """Return the number or name *word*; None if it is neither, or out of bounds."""
    if word in spec.names:
        return spec.names.index(word) + spec.named_from
    if word.isdecimal() and spec.low <= int(word) <= spec.high:
        return int(word)
    return None


def _offer_zone(found: re.Match[str], accepts: Accepts) -> str:
    """Return a rule with its zone beside it; "" if one of them is refused, too."""
    name, rule = found[1], found[2]
    try:
        load_zone(name)
    except RuleError:
        return ""
    if not accepts(rule):
        return ""
    return f'Write {{"cron_rule": "{rule}", "timezone": "{name}"}}.'


def _offer_due_date(found: re.Match[str], _accepts: Accepts) -> str:
    """Return the date that AWS runs something once; "" if it is none."""
    said = found[1].upper()
    try:
        parse_due_date(said, load_zone("UTC"))
    except RuleError:
        return ""
    return f'Write a due date: {{"due_date": "{said}"}}.'


def _offer_interval(found: re.Match[str], _accepts: Accepts) -> str:
    """Return the interval that "5m" or "1 hour" asks for; "" if it is neither."""
    said = (found[1] or found[2]).upper()
    if said.isalpha():
        said = f"1 {said}"  # "@every_minute", "@every hour"
    parts = _ELAPSED.findall(said)
    if not parts or _ELAPSED.sub("", said).strip():
        return ""
    total = sum(int(count) * _SECONDS_OF[unit[0]] for count, unit in parts)
    if 0 < total < 60:
        return (
            f'Write an interval: {{"every": "{write_elapsed(total)}"}}, which only a'
            ' lone "run_task" may have; other steps run once a minute at most.'
        )
    if not total or total > _LONGEST_S:
        return ""
    return f'Write an interval: {{"every": "{write_elapsed(total)}"}}.'


#: Rules that are no five fields: what they look like, and what was meant.
_WHOLE_RULES = (
    (r"@EVERY[\s_]+(.+)|RATE\((.+)\)", _offer_interval),
    (r"AT\(\s*([0-9T:-]{1,30})\s*\)", _offer_due_date),
    (r"(?:CRON_)?TZ=(\S+)\s+(.+)", _offer_zone),
)


def _make_calendar(
    words: Sequence[str],
    second: str | None = None,
    year: str | None = None,
    *,
    both: bool = False,
) -> str:
    """
    Return a calendar rule with the meaning of *words*, as JSON; "" if there is none.

    Args:
        words: The five fields of a cron rule; the day may be such as "L-2".
        second: The field of seconds.
        year: The field of years.
        both: Whether days are meant that match both day fields.
    """
    day, weekday = words[_DAY], words[_WEEKDAY]
    if day != "*" and weekday != "*" and not both:
        return ""
    from_end = _FROM_END.fullmatch(day)
    if day == "L" or from_end is not None:
        days = f"~{1 + int(from_end[1] if from_end else 0):02}"
    else:
        days = "-" + _as_spans(day, FIELDS[_DAY])
    minute, hour, month = (_as_spans(words[n], FIELDS[n]) for n in (0, 1, 3))
    seconds = _as_spans(second or "0", FIELDS[0])
    text = f"{year or '*'}-{month}{days} {hour}:{minute}:{seconds}".replace("?", "*")
    if weekday != "*":
        text = f"{_as_weekdays(weekday)} {text}"
    try:
        CalendarExpression.parse(text)
    except RuleError:
        return ""
    return f'{{"calendar": "{text}"}}'


def _as_spans(word: str, spec: CronField) -> str:
    """Return a field of a cron rule as systemd writes it; as it is if nobody can."""

    def number(found: re.Match[str]) -> str:
        value = _get_number(found[0], spec)
        return found[0] if value is None else f"{value:02}"

    terms = []
    for term in word.split(","):
        begin, slash, step = term.partition("/")
        if begin == "*" and slash:
            begin = f"{spec.low:02}"
        begin = re.sub(r"[0-9]+|[A-Z]{3}", number, begin).replace("-", "..")
        terms.append(f"{begin}{slash}{step}")
    return ",".join(terms)


def _as_weekdays(word: str) -> str:
    """Return days of the week as systemd names them; "?" if they are not plain."""
    try:
        chosen = parse_fields(f"* * * * {word}").values[_WEEKDAY]
    except RuleError:
        return "?"
    if not all(isinstance(each, int) for each in chosen):
        return "?"
    return ",".join(
        name for number, name in enumerate(WEEKDAYS, 1) if number % _WEEK in chosen
    )
