"""CronJobs of Kubernetes, as their YAML says. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import yaml

from actions.importing.origins.clock_times import (
    MONTH_NAMES,
    WEEKDAY_NAMES,
    ClockFields,
    Dialect,
)
from actions.importing.origins.imported import ActionDraft, Entry, Table, refuse
from actions.importing.origins.tasks import run_task
from models.errors import InvalidDocumentError, Problem
from models.expressions.cron_fields import MACROS
from models.fields.duration import write_elapsed
from models.occurrence import LOOKBACK

#: Bytes of a file; manifests of a whole cluster are smaller.
_LARGEST = 8 << 20

_DIALECT = Dialect(
    "Kubernetes refuses {} in a schedule. Correct it first.",
    names=({}, {}, {}, MONTH_NAMES, WEEKDAY_NAMES),
    stars="*?",
    has_open_steps=True,
)

#: A star with a step is no star for the controller's parser (robfig/cron 3).
_STARRY = re.compile(r"(?:.*,)?[*?](?:/0*1)?(?:,.*)?")

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


def read_cron_jobs(text: bytes) -> tuple[Entry, ...]:
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


def _find_jobs(value: object) -> Iterator[Entry]:
    if not isinstance(value, Mapping):
        return
    kind, found = str(value.get("kind")), value.get("items")
    if kind not in {"List", "CronJobList"}:
        found = [value] if kind == "CronJob" else []
    for each in found if isinstance(found, list) else []:
        # the items of a CronJobList need not say what they are
        if isinstance(each, Mapping) and each.get("kind", "CronJob") == "CronJob":
            yield _read_job(each)


def _read_job(value: Mapping[str, Any]) -> Entry:
    metadata, spec = (
        found if isinstance(found := value.get(name), Mapping) else {}
        for name in ("metadata", "spec")
    )
    known = {"name": str(metadata.get("name") or "unnamed")}
    if metadata.get("namespace") is not None:
        known["namespace"] = str(metadata["namespace"])
    title = "/".join(reversed(known.values()))
    return Entry(title, {**spec, "metadata": known})


def _read_schedule(draft: ActionDraft, schedule: Any) -> None:
    if not isinstance(schedule, str):
        refuse("It has no schedule. Write spec.schedule first.")
    zone = draft.fields.get("timeZone")
    draft.rule = " ".join(filter(None, (schedule, zone)))
    zone = zone or draft.defaults.timezone
    if schedule.startswith("@every"):
        # the door refuses it, with the interval that is meant
        draft.document["when"] = {"cron_rule": schedule}
        return
    draft.document["when"] = _read_fields(schedule).make_rule(zone)
    draft.other_clock = (
        "The controller leaves out what is skipped, and may run a time of day that"
        " comes twice in both passes."
    )


def _read_fields(schedule: str) -> ClockFields:
    text = MACROS.get(schedule.strip().lower(), schedule)
    words = text.split()
    if len(words) != 5 or "TZ=" in words[0]:
        refuse(
            f"{schedule[:80]!r} is not a schedule of five fields. Write the zone into"
            " timeZone, and leave out seconds and years."
        )
    is_starry = any(map(_STARRY.fullmatch, (words[2], words[4])))
    clock = _DIALECT.read_fields(words)
    return replace(clock, either=not is_starry, written=text.replace("?", "*"))


def _read_zone(draft: ActionDraft, zone: Any) -> None:
    if zone is None:
        draft.remarks.append(
            f"It has no timeZone: read in {draft.defaults.timezone}. The cluster reads"
            " it in the zone of its controller, mostly UTC (--timezone)."
        )


def _read_suspend(draft: ActionDraft, value: Any) -> None:
    if value:
        draft.switch_off("suspended")


def _read_policy(draft: ActionDraft, policy: Any) -> None:
    overlap, difference = _OVERLAPS.get(str(policy), _OVERLAPS["Allow"])
    draft.document["overlap"] = overlap
    if difference is not None:
        draft.differences.append(difference)


def _read_deadline(draft: ActionDraft, seconds: Any) -> None:
    """Catch up what the deadline allows; without one, the last that was missed."""
    catch_up: dict[str, Any] = {"runs": "latest"}
    if isinstance(seconds, int):
        if seconds < LOOKBACK.total_seconds():
            draft.differences.append(
                f"A start may be {seconds} s late there; here five minutes"
                " (MINUTEHAND_LOOKBACK)."
            )
        if seconds <= LOOKBACK.total_seconds():
            return
        catch_up["within"] = write_elapsed(seconds)
    draft.document["catch_up"] = catch_up


def _read_metadata(draft: ActionDraft, metadata: Mapping[str, object]) -> None:
    run_task(draft, draft.defaults.task, kwargs=metadata)


#: The ``spec`` of a CronJob, and what names it; its ``jobTemplate`` stays where it is.
KUBERNETES: Table = {
    "schedule": _read_schedule,
    "timeZone": _read_zone,
    "suspend": _read_suspend,
    "concurrencyPolicy": _read_policy,
    "startingDeadlineSeconds": _read_deadline,
    "metadata": _read_metadata,
}
