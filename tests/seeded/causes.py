"""Why runs of the seeded installation failed: a few causes, each in its time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from models.operation_state import Reason
from tests.seeded.actions import SeededAction
from tests.seeded.scene import Scene

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Cause:
    """
    What made a run fail.

    Args:
        step: The one that failed.
        text: The error of the step.
        is_permanent: Whether no attempt could mend it; otherwise there were three.
        attempt: The attempt that succeeded after it. None: none did.
    """

    step: str
    text: str
    is_permanent: bool = True
    attempt: int | None = None
    reason: Reason = Reason.STEP_FAILED


#: Causes with a story: the action's uid or the app's, the step, hours ago from and
#: until, the error, and whether another attempt cannot help.
_STORIES = (
    (
        *("crew-roster", "call_webhook", 23.6, 0),
        "the request was not accepted: 410 Gone",
        True,
    ),
    (
        *("harbour-logistics", "send_execsum", 9, 0),
        (
            "every mail was refused; the first is to 's.lindqvist': 550 5.7.1 sender "
            "not allowed"
        ),
        True,
    ),
    (
        *("policy-welcome", "send_email", 200, 0),
        "template 'renewal' (text, line 3): 'dict object' has no attribute 'plan'",
        True,
    ),
    (
        *("ironbridge-rail", "refresh", 150, 145),
        (
            "domain timetable: source https://data.ironbridge.example/timetable.csv: "
            "503 Service Unavailable"
        ),
        False,
    ),
    (
        *("northgate-bank", "refresh", 290, 284),
        (
            "domain ledger: source connection warehouse: connection to server at "
            "10.4.0.12, port 5432 failed: Connection refused"
        ),
        False,
    ),
    (
        *("card-clearing", "call_webhook", 402, 398),
        "the request was not accepted: hooks.northgate.example: timed out",
        False,
    ),
)

#: What goes wrong now and then, and is gone at the next attempt.
_PASSING = {
    "refresh": "domain {domain}: source https://data.{host}/{domain}.csv: 502 Bad "
    "Gateway",
    "send_email": "the mail server could not be reached: smtp.{host}:587: Connection "
    "reset by peer",
    "send_execsum": "the mail server could not be reached: smtp.{host}:587: "
    "Connection reset by peer",
    "call_webhook": "the request was not accepted: 503 Service Unavailable",
    "run_task": "the broker did not take the task: Connection reset by peer",
}

#: What is wrong for good, until somebody mends it.
_LASTING = {
    "refresh": "domain {domain}: source https://data.{host}/{domain}.csv: 404 Not "
    "Found",
    "send_email": "every mail was refused; the first is to 'a.berg': 550 5.1.1 no such "
    "mailbox",
    "send_execsum": "every mail was refused; the first is to 'a.berg': 550 5.1.1 no "
    "such mailbox",
    "call_webhook": "the request was not accepted: 404 Not Found",
    "run_task": "queue 'reports' is not one of MINUTEHAND_TASK_QUEUES",
}


def find_cause(
    scene: Scene, action: SeededAction, occurrence: datetime, draw: Random
) -> Cause | None:
    """Return why the run of *action* for *occurrence* failed, if it did."""
    steps = action.steps
    ago = scene.now - occurrence
    for whose, step, since, until, text, is_permanent in _STORIES:
        if (
            whose in {action.uid, action.business.uid}
            and step in steps
            and until * _HOUR <= ago <= since * _HOUR
        ):
            return Cause(step, text, is_permanent)
    if action.uid == "site-photos" and ago < 30 * _HOUR:
        text = "the soft time limit was reached"
        return Cause("refresh", text, reason=Reason.TIME_LIMIT)
    if action.special is not None and action.special.ending is not None:
        return None
    fate = draw.random()
    named = {"host": action.business.host, "domain": action.business.domains[0]}
    # A few actions are wrong for days; the rest have a bad moment now and then.
    if action.is_bad and ago < 120 * _HOUR:
        return Cause(steps[0], _LASTING[steps[0]].format(**named))
    if fate < 0.009:
        step = draw.choice([each for each in steps if each != "publish"])
        text = _PASSING[step].format(**named)
        return Cause(
            step, text, is_permanent=False, attempt=2 if fate < 0.007 else None
        )
    return None
