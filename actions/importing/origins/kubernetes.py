"""CronJobs of Kubernetes, as their YAML says. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from actions.importing.origins.clock_fields import (
    EVERY_DAY,
    EVERY_HOUR,
    EVERY_MINUTE,
    EVERY_MONTH,
    EVERY_WEEKDAY,
    MONTH_NAMES,
    WEEKDAY_NAMES,
    ClockFields,
)
from actions.importing.origins.crontab import explain_days
from actions.importing.origins.durations import read_interval, write_elapsed
from actions.importing.origins.imported import ActionDraft, CannotBeError, Defaults
from actions.importing.origins.tasks import Task, run_task
from models.errors import InvalidDocumentError, Problem
from models.occurrence import LOOKBACK

#: Bytes of a file; manifests of a whole cluster are smaller.
_LARGEST = 8 << 20

_TERM = re.compile(r"(?P<first>[*?]|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>[0-9]+))?")
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_EVERY = re.compile(r"@every\s+((?:[0-9.]+(?:h|ms|m|s))+)")

_OTHER_CLOCK = (
    "The controller leaves out what is skipped, and may run a time of day that comes"
    " twice in both passes."
)

#: What concurrencyPolicy is here, and what of it differs.
_OVERLAPS = {
    "Allow": ("allow", None),
    "Forbid": ("skip", None),
    "Replace": (
        "skip",
        (
            "Nothing here stops a run for the next one, so the next one is left out;"
            " let the task delete the older Job if it must not wait."
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class CronJob:
    """
    A CronJob.

    Args:
        name: Of its metadata.
        namespace: None: whatever the context says.
        spec: Its ``spec``.
    """

    name: str
    namespace: str | None
    spec: Mapping[str, Any]

    @property
    def title(self) -> str:
        """Return what the report calls it."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def read_cron_jobs(text: bytes) -> tuple[CronJob, ...]:
    """
    Return the CronJobs of a file: YAML or JSON, one or many documents, or lists.

    Raises:
        InvalidDocumentError: If it is neither, or larger than 8 MiB.
    """
    if len(text) > _LARGEST:
        problem = Problem("", f"The file has {len(text):,} bytes.", "Split it up.")
        raise InvalidDocumentError((problem,))
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where = getattr(error, "problem_mark", None)
        at = f" (line {where.line + 1}, column {where.column + 1})" if where else ""
        said = getattr(error, "problem", None) or type(error).__name__
        problem = Problem("", f"It is not YAML: {said}{at}.", "Correct the file.")
        raise InvalidDocumentError((problem,)) from None
    return tuple(job for each in documents for job in _find_jobs(each))


def _find_jobs(value: object) -> Iterator[CronJob]:
    if not isinstance(value, Mapping):
        return
    if value.get("kind") in {"List", "CronJobList"}:
        items = value.get("items")
        for item in items if isinstance(items, list) else []:
            # the items of a CronJobList need not say what they are
            if isinstance(item, Mapping) and item.get("kind", "CronJob") == "CronJob":
                yield _read_job(item)
    elif value.get("kind") == "CronJob":
        yield _read_job(value)


def _read_job(value: Mapping[str, Any]) -> CronJob:
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    spec = value.get("spec")
    namespace = metadata.get("namespace")
    return CronJob(
        str(metadata.get("name") or "unnamed"),
        None if namespace is None else str(namespace),
        spec if isinstance(spec, Mapping) else {},
    )


def fill_from_cron_job(draft: ActionDraft, job: CronJob, defaults: Defaults) -> None:
    """Write the action that does what *job* did; see ``import_each``."""
    spec = job.spec
    schedule = spec.get("schedule")
    if not isinstance(schedule, str):
        raise CannotBeError("It has no schedule. Write spec.schedule first.")
    zone = spec.get("timeZone")
    draft.rule = " ".join(filter(None, (schedule, zone)))
    _add_schedule(draft, schedule, zone, defaults)
    if zone is None:
        draft.remarks.append(
            f"It has no timeZone: read in {defaults.timezone}. The cluster reads it in"
            " the zone of its controller, mostly UTC (--timezone)."
        )
    if spec.get("suspend"):
        draft.document["active"] = False
        draft.remarks.append("It is suspended, so it is not active here.")
    overlap, difference = _OVERLAPS.get(
        str(spec.get("concurrencyPolicy", "Allow")), ("allow", None)
    )
    draft.document["overlap"] = overlap
    if difference is not None:
        draft.differences.append(difference)
    _add_deadline(draft, spec.get("startingDeadlineSeconds"))
    kwargs: dict[str, object] = {"name": job.name}
    if job.namespace is not None:
        kwargs["namespace"] = job.namespace
    run_task(draft, Task(defaults.task, kwargs=kwargs), defaults)


def _add_deadline(draft: ActionDraft, seconds: object) -> None:
    """Catch up what the deadline allows; without one, the last that was missed."""
    catch_up: dict[str, Any] = {"runs": "latest"}
    if isinstance(seconds, int):
        if seconds <= LOOKBACK.total_seconds():
            if seconds:
                draft.remarks.append(
                    f"A start may be {seconds} s late there; here five minutes"
                    " (MINUTEHAND_LOOKBACK)."
                )
            return
        catch_up["within"] = write_elapsed(seconds)
    draft.document["catch_up"] = catch_up


def _add_schedule(
    draft: ActionDraft, schedule: str, zone: str | None, defaults: Defaults
) -> None:
    every = _EVERY.fullmatch(schedule.strip())
    if every is not None:
        parts = re.findall(r"([0-9.]+)(h|ms|m|s)", every[1])
        seconds = read_interval(sum(float(n) * _UNITS[unit] for n, unit in parts))
        draft.document["when"] = {
            "every": write_elapsed(seconds),
            "timezone": zone or defaults.timezone,
        }
        draft.differences.append("It runs on a fixed grid from the post.")
        return
    draft.document["when"] = _read_fields(schedule).make_rule(zone or defaults.timezone)
    draft.other_clock = _OTHER_CLOCK
    draft.remarks += explain_days(schedule)


def _read_fields(schedule: str) -> ClockFields:
    text = _MACROS.get(schedule.strip().lower(), schedule)
    words = text.split()
    if len(words) != 5 or "TZ=" in words[0]:
        msg = (
            f"{schedule[:80]!r} is not a schedule of five fields. Write the zone into"
            " timeZone, and leave out seconds and years."
        )
        raise CannotBeError(msg)
    days, starry_day = _read(words[2], EVERY_DAY, ())
    weekdays, starry_weekday = _read(words[4], EVERY_WEEKDAY, WEEKDAY_NAMES)
    return ClockFields(
        minutes=_read(words[0], EVERY_MINUTE, ())[0],
        hours=_read(words[1], EVERY_HOUR, ())[0],
        days=days,
        months=_read(words[3], EVERY_MONTH, MONTH_NAMES)[0],
        weekdays=weekdays,
        # a star with a step is no star for the controller's parser (robfig/cron 3)
        either=not (starry_day or starry_weekday),
        written=text.replace("?", "*"),
    )


def _read(
    text: str, every: frozenset[int], names: tuple[str, ...]
) -> tuple[frozenset[int], bool]:
    """Return the numbers of a field, and whether it has a star without a step."""
    low, high = min(every), max(every)
    found: set[int] = set()
    starry = False
    for term in text.split(","):
        match = _TERM.fullmatch(term)
        if match is None or (match["first"] in "*?" and match["last"]):
            msg = f"Kubernetes refuses {term!r} in a schedule. Correct it first."
            raise CannotBeError(msg)
        step = int(match["step"] or 1)
        if match["first"] in "*?":
            first, last = low, high
            starry = starry or step == 1
        else:
            first = _read_number(match["first"], names, low, high)
            alone = high if match["step"] else first
            last = _read_number(match["last"], names, low, high, alone)
        if step < 1 or last < first:
            msg = f"Kubernetes refuses {term!r} in a schedule. Correct it first."
            raise CannotBeError(msg)
        found.update(range(first, last + 1, step))
    return frozenset(found), starry


def _read_number(
    word: str | None,
    names: tuple[str, ...],
    low: int,
    high: int,
    absent: int = 0,
) -> int:
    if word is None:
        return absent
    lower = word.lower()
    offset = 1 if low else 0
    number = int(word) if word.isdecimal() else -1
    if lower in names:
        number = names.index(lower) + offset
    if not low <= number <= high:
        msg = f"Kubernetes refuses {word!r} in a schedule. Correct it first."
        raise CannotBeError(msg)
    return number
