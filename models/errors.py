"""
Every error that crosses a package border. Pure.

Expected losses (already recorded, no longer ours) are return values, not errors.
Whether a failure is worth another attempt is said by the ``permanent`` flag of
StepError, never by a class name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

#: As models/json_form.py has it, which imports this.
_ASIDE = {"exclude": True}


@dataclass(frozen=True, slots=True)
class Problem:
    """
    One thing that is wrong with a document, for its author.

    Args:
        pointer: JSON pointer (RFC 6901) of the value that is wrong; "" is the document.
        message: What was found and why it is refused, with the value.
        hint: What to write instead.
        place: Line and column, from 1, of a text that is not even JSON. None: the
            pointer says where.
        about_key: Whether it is the key there that is wrong, not its value.
        instead: The key or text that was probably meant. None: nobody can tell.
    """

    pointer: str
    message: str
    hint: str
    place: tuple[int, int] | None = field(default=None, metadata=_ASIDE)
    about_key: bool = field(default=False, metadata=_ASIDE)
    instead: str | None = field(default=None, metadata=_ASIDE)

    def __str__(self) -> str:
        """Return it as one line: where, what, what to do."""
        where = self.pointer or "(document)"
        return f"{where}: {self.message} {self.hint}".rstrip()


class MinutehandError(Exception):
    """Root of all our errors; ``exit_code`` is what the command line returns."""

    exit_code = 1


class UsageError(MinutehandError):
    """The call itself is wrong: an option, a setting, an environment variable."""

    exit_code = 2


class InvalidDocumentError(MinutehandError):
    """A document was refused at the door; ``problems`` is never empty."""

    exit_code = 3

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        """Keep *problems* in document order."""
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class NotFoundError(MinutehandError):
    """No such small app, action or operation."""

    exit_code = 4


class ForbiddenError(MinutehandError):
    """The caller's role does not suffice."""


class ConflictError(MinutehandError):
    """It already exists, is already running, or belongs to somebody else."""

    exit_code = 5


class StaleError(ConflictError):
    """
    Somebody else changed it since the caller read it.

    Args:
        current: What names the version that there is now. None: there is none, or it
            does not matter.
    """

    def __init__(self, message: str, *, current: str | int | None) -> None:
        """Keep *current*, for callers who want to look again."""
        super().__init__(message)
        self.current = current


class UnreachableError(MinutehandError):
    """Database or broker did not answer within its deadline."""

    exit_code = 6


class DeadlockError(UnreachableError):
    """A transaction and another one waited for each other; this one was taken back."""


class LockedError(UnreachableError):
    """Another session kept a lock for longer than we wait; nothing was written."""


class RefusedError(UnreachableError):
    """
    The role lacks a right that we need in the database.

    Args:
        cause: What the database said.
    """

    def __init__(self, cause: str) -> None:
        """Keep *cause* for callers who do not need the hint."""
        super().__init__(
            f"the database refused access: {cause}. The doctor lists the "
            "missing grants (minutehand doctor)"
        )
        self.cause = cause


class BrokerUnreachableError(UnreachableError):
    """The broker did not accept messages in time; any of them may have arrived."""


class RuleError(ValueError):
    """
    A rule, zone, date or duration that cannot be read.

    Raised by the parsers in models; the door turns it into a Problem with the
    pointer of the field.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        """Say what is wrong (*message*) and what to write instead (*hint*)."""
        super().__init__(f"{message} {hint}".rstrip())
        self.message = message
        self.hint = hint


class StepError(MinutehandError):
    """
    A step failed.

    Args:
        message: For the operator; never contains a secret.
        permanent: True if another attempt cannot help (bad template, unknown
            domain); False for what may pass (network, lock).
    """

    def __init__(self, message: str, *, permanent: bool) -> None:
        """Keep *permanent* for the retry decision."""
        super().__init__(message)
        self.permanent = permanent


class PostponedError(MinutehandError):
    """
    A step must wait through no fault of its small app; no attempt is counted.

    Args:
        message: For the operator; never contains a secret.
        delay: How long until the operation is tried again.
        reason: What it waits for, as a ``Reason`` and details.
    """

    def __init__(self, message: str, *, delay: timedelta, reason: str) -> None:
        """Keep when to try again, and why."""
        super().__init__(message)
        self.delay = delay
        self.reason = reason


class AwaitedError(MinutehandError):
    """
    A step has begun what goes on elsewhere; its operation waits without a worker.

    Args:
        what: What is waited for, for people.
        within: How long; then the operation fails, if nothing has come before.
        result: What is known by now, as the result of the step.
    """

    def __init__(
        self, what: str, *, within: timedelta, result: Mapping[str, Any]
    ) -> None:
        """Keep how long to wait."""
        super().__init__(what)
        self.within = within
        self.result = result


class PlatformError(StepError):
    """
    A step failed because of the platform: a full disk, a lost folder, no memory.

    The action is not to blame, so no attempt is counted.
    """

    def __init__(self, message: str) -> None:
        """Take *message* for the operator: what of the platform failed, and why."""
        super().__init__(message, permanent=False)


class ClaimLostError(MinutehandError):
    """Our claim on an operation ended: others took over, canceled or finished it."""


class CanceledError(MinutehandError):
    """The operation was canceled while it ran; raised at the next progress point."""


class TimeLimitError(MinutehandError):
    """An operation took longer than its soft time limit."""


class StepSkippedError(MinutehandError):
    """What the step was for is no longer true (the user came back)."""
