"""One run: its steps, the mails that it sent, and what it said."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from models.operation_state import OperationState, Reason, StepState, Trigger
from operations.foreign_tasks import make_task_id
from operations.running.pace import ATTEMPTS_KEY
from operations.running.past_attempts import AttemptOutcome, PastAttempt
from tests.seeded.actions import SeededAction
from tests.seeded.apps import People
from tests.seeded.causes import Cause
from tests.seeded.scene import Scene

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)

#: Of operations that are younger, the lines of the log are there.
_LOGGED = timedelta(days=2)

#: How the time of a run is divided among its steps.
_WEIGHTS = {
    "refresh": 30,
    "publish": 1,
    "send_email": 20,
    "send_execsum": 6,
    "call_webhook": 2,
    "run_task": 1,
}

_NO_STEP: Mapping[str, Any] = {
    "attempt": 0,
    "started_at": None,
    "finished_at": None,
    "progress": None,
    "memo": None,
    "result": None,
    "error": None,
}


def _tell_read(domain: str, read: str, version: int) -> str:
    """Return the line about a domain whose source was read."""
    changed = f"the source has changed since version {version}, or may have"
    return f"{domain}: read {read}; {changed}"


@dataclass
class History:
    """Rows of what happened, by table."""

    operations: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    contents: dict[str, dict[str, Any]] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class World:
    """
    What all runs of an app share.

    Args:
        scene: When it is.
        history: Where rows are added.
        people: The users of the app.
        draw: Random numbers.
    """

    scene: Scene
    history: History
    people: People
    draw: Random


@dataclass
class Run:
    """A run that began, and how it went on."""

    world: World
    row: dict[str, Any]
    action: SeededAction
    cause: Cause | None
    took: timedelta

    def finish(self) -> datetime:
        """Complete the row; return when it ended, which may be still to come."""
        scene, row, cause = self.world.scene, self.row, self.cause
        ending = self.action.special.ending if self.action.special else None
        if ending and scene.now - row["started_at"] < 21 * _MINUTE:
            return self._leave_open(ending)
        began: datetime = row["started_at"]
        if cause is not None and not cause.is_permanent:
            row["attempt"] = cause.attempt or 3
            began = self._fail_before(cause, began)
            row["sends"] = row["attempt"]
        is_failed = cause is not None and cause.attempt is None
        is_canceled = self._is_canceled()
        if cause is not None and cause.reason is Reason.TIME_LIMIT:
            self.took = timedelta(hours=1)
        elif is_failed:
            self.took *= 0.6
        ended = began + self.took
        if ended > scene.now:
            return self._leave_open("running")
        row["finished_at"] = ended
        if is_canceled:
            row |= {"state": OperationState.CANCELED, "reason": Reason.CANCELED}
            self._add_rest(0, StepState.SKIPPED, finished_at=ended)
            return ended
        if is_failed:
            assert cause is not None  # a failure has one
            told = f": {cause.step}" if cause.reason is Reason.STEP_FAILED else ""
            row |= {
                "state": OperationState.FAILED,
                "reason": f"{cause.reason}{told}",
                "error": cause.text,
                "noticed_at": ended,
            }
        self._add_steps(began, ended, cause if is_failed else None)
        return ended

    def _fail_before(self, cause: Cause, began: datetime) -> datetime:
        """Note the attempts before the last one; return when that began."""
        former = self.row["attempt"] - 1
        attempts = []
        for number in range(former):
            ended = began + self.took * 0.3 / former
            attempt = PastAttempt(
                number=number + 1,
                outcome=AttemptOutcome.FAILED,
                step=cause.step,
                began_at=began,
                step_began_at=began + 0.01 * _SECOND,
                ended_at=ended,
                error=cause.text,
            )
            attempts.append(attempt.as_details())
            began = ended + (30, 60)[number] * _SECOND
        self.row["details"] = {**(self.row["details"] or {}), ATTEMPTS_KEY: attempts}
        return began

    def _is_canceled(self) -> bool:
        """Whether somebody changed their mind about what they had asked for."""
        if self.row["trigger"] is not Trigger.MANUAL:
            return False
        return self.world.draw.random() < 0.2

    def _leave_open(self, ending: str) -> datetime:
        """Let it run, or wait for its next attempt, at this moment."""
        scene, row = self.world.scene, self.row
        row["finished_at"] = None
        names = self.action.steps
        begun = row["started_at"] + 0.02 * _SECOND
        if ending == "retrying":
            error = (
                "domain timetable: source https://data.ironbridge.example/"
                "timetable.csv: 503 Service Unavailable"
            )
            failed_at = scene.now - 12 * _SECOND
            row |= {
                "state": OperationState.PENDING,
                "reason": Reason.STEP_FAILED,
                "error": f"refresh: {error}",
                "send_at": scene.now + 18 * _SECOND,
                "attempt": 1,
            }
            progress = {"done": 1, "total": 3, "note": "timetable"}
            self._add_step(
                0,
                "refresh",
                StepState.FAILED,
                started_at=begun,
                finished_at=failed_at,
                progress=progress,
                error=error,
            )
            self._add_rest(1, StepState.PENDING)
            self._log([(failed_at, "refresh", "error", error)], begun)
            return failed_at
        row |= {
            "state": OperationState.RUNNING,
            "claim_token": scene.make_id("claim", row["id"]),
            "lease_expires_at": scene.now + 52 * _SECOND,
            "attempt": 1,
        }
        todo = self.action.domains
        share = min(0.9, (scene.now - begun) / max(self.took, _SECOND))
        done = min(len(todo) - 1, int(share * len(todo)))
        progress = {"done": done, "total": len(todo), "note": todo[done]}
        row["progress"] = {"step": names[0], **progress}
        self._add_step(
            0, names[0], StepState.RUNNING, started_at=begun, progress=progress
        )
        self._add_rest(1, StepState.PENDING)
        lines = []
        for number, name in enumerate(todo[:done]):
            at = begun + (number + 1) * (scene.now - begun) / (done + 2)
            read = f"{1_000 + 317 * number:,} rows, {40 + 9 * number} kB"
            lines.append((at, names[0], "info", _tell_read(name, read, 11 + number)))
        self._log(lines, begun)
        expected_at: datetime = row["started_at"] + self.took
        return max(scene.now + 5 * _SECOND, expected_at)

    def _add_step(
        self, position: int, name: str, state: StepState, **values: Any
    ) -> None:
        attempt = 0 if state is StepState.PENDING else self.row["attempt"]
        self.world.history.steps.append(
            {
                "operation_id": self.row["id"],
                "position": position,
                "name": name,
                "state": state,
                **_NO_STEP,
                "attempt": attempt,
                **values,
            }
        )

    def _add_rest(self, first: int, state: StepState, **values: Any) -> None:
        for position, name in enumerate(self.action.steps[first:], first):
            self._add_step(position, name, state, **values)

    def _add_steps(self, began: datetime, ended: datetime, cause: Cause | None) -> None:
        """Divide the time of the run among its steps, up to the one that failed."""
        names = self.action.steps
        weights = [_WEIGHTS[name] for name in names]
        if cause is not None:
            weights = weights[: names.index(cause.step) + 1]
        total = sum(weights)
        at = began + 0.01 * _SECOND
        lines: list[tuple[datetime, str, str, str]] = []
        how: dict[str, Any]
        for position, (name, weight) in enumerate(zip(names, weights, strict=False)):
            until = at + (ended - began) * (weight / total) - 0.002 * _SECOND
            until = min(until, ended)
            when = {"started_at": at, "finished_at": until}
            if cause is not None and name == cause.step:
                how = {**when, "error": cause.text}
                self._add_step(position, name, StepState.FAILED, **how)
                lines.append((until, name, "error", cause.text))
                if cause.text.startswith("every mail"):
                    self._add_mails(
                        name, until, refused=cause.text.rpartition("': ")[2]
                    )
            else:
                result, said = self._make_result(name, until)
                how = {**when, "result": result}
                self._add_step(position, name, StepState.SUCCEEDED, **how)
                lines += [(until, name, level, text) for level, text in said]
            at = until + 0.001 * _SECOND
        if cause is not None:
            self._add_rest(
                len(weights), StepState.SKIPPED, finished_at=ended, attempt=0
            )
        self._log(lines, began)

    def _make_result(
        self, name: str, at: datetime
    ) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Return the result of a step, and the lines that it said."""
        operations = self.action.document["operations"]
        number = (at - self.world.scene.begin) // timedelta(hours=2)
        told: dict[str, Any]
        match name:
            case "refresh":
                names = self.action.domains
                reused = names[1:2] if number % 3 == 0 else []
                read = [each for each in names if each not in reused]
                rows = {each: 900 + len(each) * 311 + number % 97 for each in read}
                versions = dict.fromkeys(read, int(number))
                said = [
                    *(_tell_read(n, f"{rows[n]:,} rows", number - 1) for n in read),
                    *(f"{each}: reused, as the source is unchanged" for each in reused),
                ]
                told = {"refreshed": read, "reused": reused}
                told |= {"rows": rows, "versions": versions}
                return told, [("info", each) for each in said]
            case "publish":
                named = self.action.business.domains[:2]
                now, was = number, number - 1
                moved = [
                    {"kind": "data", "name": each, "before": was, "after": now}
                    for each in named
                ]
                said = [
                    f"data {each}: version {now} is live, version {was} was"
                    for each in named
                ]
                told = {"published": ["data"], "moved": moved}
                return told, [("info", each) for each in said]
            case "send_email" | "send_execsum":
                return self._add_mails(name, at)
            case "call_webhook":
                told = {"webhook_id": str(self.row["id"]), "answer": "204 No Content"}
                return told, []
            case _:
                asked = operations["run_task"]
                told = {"task_id": make_task_id(self.row["id"])}
                told |= {"name": asked["name"], "queue": asked["queue"]}
                return {**told, "connection": None}, []

    def _add_mails(
        self, step: str, at: datetime, *, refused: str | None = None
    ) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Add a mark for each recipient."""
        people, draw = self.world.people, self.world.draw
        user_id = self.row["user_id"]
        if user_id is not None:
            ids = [user_id]
        else:
            recipients = self.action.document.get("recipients") or {}
            groups = recipients.get("groups") or ["managers"]
            ids = people.find_recipients(groups[0], at)
        content = self._keep_content(step, at)
        uncertain: list[str] = []
        failed: list[dict[str, str]] = []
        for number, each in enumerate(ids):
            state, error = "sent", None
            if refused is not None:
                state, error = "failed", refused
            elif self._is_uncertain(number, draw.random()):
                state = "uncertain"
                error = (
                    f"smtp.{self.action.business.host}:587: Connection reset by peer"
                )
                uncertain.append(each)
            elif draw.random() < 0.002 and len(ids) > 1:
                state, error = "failed", "550 5.1.1 no such mailbox"
                failed.append({"user": each, "error": error})
            self.world.history.deliveries.append(
                {
                    "operation_id": self.row["id"],
                    "step": step,
                    "recipient": each,
                    "state": state,
                    "error": error,
                    "updated_at": at - (len(ids) - number) * 0.004 * _SECOND,
                    "app": self.row["app"],
                    "content": content,
                }
            )
        sent = len(ids) - len(uncertain) - len(failed)
        told = {"sent": sent, "uncertain": uncertain, "failed": failed, "warnings": []}
        parts = {"sent": sent, "uncertain": len(uncertain), "refused": len(failed)}
        words = ", ".join(f"{count:,} {word}" for word, count in parts.items() if count)
        level = "warning" if uncertain or failed else "info"
        mails = "1 mail" if len(ids) == 1 else f"{len(ids):,} mails"
        if step == "send_execsum":
            return {"domains": {}, **told}, [(level, f"{mails}: {words}")]
        template = self.action.document["operations"]["send_email"]["template"]
        return {"template": template, **told}, [(level, f"{mails}: {words}")]

    def _is_uncertain(self, number: int, fate: float) -> bool:
        ago = self.world.scene.now - self.row["occurrence"]
        if self.action.uid == "appointment-reminders" and ago < _DAY:
            return number == 17
        return fate < 0.00006

    def _keep_content(self, step: str, at: datetime) -> str:
        """Return the digest of what the mails of a day said."""
        name, app = self.action.name, self.action.business.name
        day = at.astimezone(UTC)
        subject = f"{name}, {day:%d %B}"
        text = (
            f"Good morning,\n\nthis is {name} of {app} for {day:%A, %d %B}. What is "
            "new since the last one is in your list. Reply to this mail if something "
            "is wrong.\n"
        )
        html = (
            f"<html><body><h1>{name}</h1><p>{app}, {day:%A, %d %B}.</p><p>What is new "
            "since the last one is in your list. Reply to this mail if something is "
            "wrong.</p></body></html>"
        )
        if step == "send_execsum":
            html = html.replace(
                "<p>What",
                "<table><tr><th>domain</th><th>rows</th></tr>"
                "<tr><td>sales</td><td>1,204</td></tr></table><p>What",
            )
        parts = json.dumps([subject, text, html], ensure_ascii=False)
        digest = hashlib.sha256(parts.encode()).hexdigest()
        kept = {"digest": digest, "subject": subject, "text": text, "html": html}
        self.world.history.contents[digest] = {**kept, "used_at": at}
        return digest

    def _log(
        self, lines: Sequence[tuple[datetime, str, str, str]], began: datetime
    ) -> None:
        """Keep the lines of a run that is not long ago."""
        if self.world.scene.now - began > _LOGGED:
            return
        if len(lines) == 1 and self.row["attempt"] == 1 and lines[0][2] == "info":
            return  # the result says the same
        for number, (at, step, level, text) in enumerate(lines, 1):
            self.world.history.log.append(
                {
                    "operation_id": self.row["id"],
                    "number": number,
                    "at": at,
                    "attempt": self.row["attempt"],
                    "step": step,
                    "level": level,
                    "text": text,
                }
            )
