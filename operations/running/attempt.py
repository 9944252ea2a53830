"""
Run a claimed operation: its steps in order, each recorded before and after.

Everything is written under the claim: a worker that was frozen or cut off, and has lost
its claim, changes nothing when it continues.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import zip_longest

import sqlalchemy as sa
import structlog
from pydantic import JsonValue, ValidationError

from models.back_off import RETRY_DELAY, read_back_off
from models.database.engine import reading, writing
from models.errors import (
    AwaitedError,
    CanceledError,
    ClaimLostError,
    PostponedError,
    StepError,
    StepSkippedError,
    TimeLimitError,
    UnreachableError,
)
from models.fields.strict_model import say
from models.operation import RefreshModel, explain_unknown_steps, find_unknown_steps
from models.operation_state import OperationState, Reason, StepState
from models.scheduled_action import ScheduledActionModel
from operations.claiming.claim import (
    await_task,
    find_end,
    finish,
    guard,
    let_go,
    postpone,
    raise_lost,
    retry_later,
)
from operations.claiming.claimed import RETURN_KEY, Claim, find_obstacle
from operations.operation_log import LONGEST_ERROR, LogLevel, shorten
from operations.ports import Ports, StepFunction
from operations.running import step_records
from operations.running.news import goes_on
from operations.running.past_attempts import AttemptOutcome, PastAttempt, note_attempt
from operations.running.platform_errors import describe_ours
from operations.running.step_context import call_step, make_context
from operations.steps import STEPS
from telemetry import Event

log = structlog.get_logger()

#: Pause after trouble of the platform, before the operation is tried again; then twice
#: that, and so on, up to the limit.
PLATFORM_DELAY = timedelta(seconds=30)
PLATFORM_DELAY_LIMIT = timedelta(minutes=5)

#: Key in a step's memo: how many times it has waited for the platform.
_WAITS = "platform waits"


@dataclass(slots=True)
class Attempt:
    """
    One attempt at one operation by this worker.

    Args:
        engine: Made in this process.
        claim: Every write needs it.
        ports: What the steps may use.
        steps: Step functions by name, in no particular order.
        monotonic: Returns seconds that never jump; spaces out writes of progress.
    """

    engine: sa.Engine
    claim: Claim
    ports: Ports
    steps: Mapping[str, StepFunction] = field(default_factory=lambda: STEPS)
    monotonic: Callable[[], float] = time.monotonic
    _step: str | None = None
    _step_began_at: datetime | None = None
    _action: ScheduledActionModel | None = None
    _is_overdue: Callable[[], bool] = lambda: False
    _memo: dict[str, JsonValue] = field(default_factory=dict)
    _spoken: step_records.SpokenLines = field(init=False)
    _began_at: float = field(init=False)

    def __post_init__(self) -> None:
        """Remember when the attempt began, for the times of its lines."""
        self._spoken = step_records.SpokenLines(self.claim.attempt)
        self._began_at = self.monotonic()

    def run(
        self, is_overdue: Callable[[], bool] = lambda: False
    ) -> OperationState | None:
        """
        Run what is left of the operation.

        Args:
            is_overdue: Returns whether the time limit is reached. Called between steps,
                at each progress, and when a step fails, because the limit may be the
                real cause.

        Returns:
            The new state of the operation; None if the claim was lost meanwhile.

        Raises:
            TimeLimitError: *is_overdue* returned True; call ``fail``.
        """
        self._is_overdue = is_overdue
        state: OperationState | None
        try:
            return self._run()
        except (StepError, ValidationError) as error:
            # It was read when it was posted, by a program with other packages.
            told = say(error) if isinstance(error, ValidationError) else str(error)
            return self.fail(f"this worker cannot read its action: {told}")
        except CanceledError:
            # the cancellation has already closed its steps
            log.info(Event.OPERATION_CANCELED, task_id=str(self.claim.operation_id))
            state = OperationState.CANCELED
        except ClaimLostError:
            log.warning(Event.CLAIM_LOST, task_id=str(self.claim.operation_id))
            state = None
        with writing(self.engine) as connection:
            if let_go(connection, self.claim) and state is not None:
                self.say("canceled; stopped here", level=LogLevel.WARNING)
                self._spoken.write(connection, self.claim.operation_id)
        return state

    def say(self, text: str, *, level: LogLevel = LogLevel.INFO) -> None:
        """Keep a line of the log, until something is written about the step."""
        self._spoken.add(text, at=self._read_clock(), step=self._step, level=level)

    def _read_clock(self) -> datetime:
        """Return the time by the database's clock, without asking it."""
        elapsed = timedelta(seconds=self.monotonic() - self._began_at)
        return self.claim.claimed_at + elapsed

    def _note(
        self, connection: sa.Connection, outcome: AttemptOutcome, error: str
    ) -> None:
        """Keep how this attempt ended; call ``guard`` first."""
        ended = PastAttempt(
            number=self.claim.attempt,
            outcome=outcome,
            step=self._step,
            began_at=self.claim.claimed_at,
            step_began_at=self._step_began_at,
            ended_at=self._read_clock(),
            error=error,
        )
        note_attempt(connection, self.claim, ended)

    @contextmanager
    def holding(self) -> Iterator[sa.Connection]:
        """Give a transaction under the claim; at its end, what was said is written."""
        with writing(self.engine) as connection:
            guard(connection, self.claim)
            yield connection
            self._spoken.write(connection, self.claim.operation_id)

    def fail(
        self,
        error: str,
        *,
        reason: Reason = Reason.STEP_FAILED,
        crash: Exception | None = None,
    ) -> OperationState | None:
        """
        Make the operation final after an unexpected error or a time limit.

        Args:
            error: For the operator.
            reason: Why it failed.
            crash: The unexpected error, whose trace is kept in the log.

        Returns:
            FAILED; None if the claim was lost meanwhile.
        """
        error = shorten(error, LONGEST_ERROR)
        told = error if crash is None else step_records.describe_crash(crash)
        self.say(told, level=LogLevel.ERROR)
        claim, failed = self.claim, OperationState.FAILED
        with writing(self.engine) as connection:
            if not finish(connection, claim, failed, reason=reason, error=error):
                let_go(connection, claim)
                return None
            if self._step is not None:
                step_records.finish_step(
                    connection, claim, self._step, StepState.FAILED, error=error
                )
            step_records.skip_open_steps(connection, [claim.operation_id])
            self._note(connection, AttemptOutcome.FAILED, error)
            self._spoken.write(connection, claim.operation_id)
        return failed

    def _run(self) -> OperationState:
        todo = self._find_begun()
        if todo is None:
            with self.holding() as connection:
                obstacle = find_obstacle(connection, self.claim)
                if obstacle is None:
                    names = self._read_action().operations.step_names
                    todo = step_records.prepare_steps(connection, self.claim, names)
            if obstacle is not None:
                return self._finish(*obstacle)
        if not todo:  # its last worker died between the last step and the end
            return self._finish(OperationState.SUCCEEDED)
        for step, following in zip_longest(todo, [each.name for each in todo[1:]]):
            state = self._run_step(step, following)
            if state is not None:
                return state
        return OperationState.SUCCEEDED

    def _find_begun(self) -> list[step_records.KeptStep] | None:
        """Return the steps, if all of them were inserted together with the claim."""
        if self.claim.begun == 0:
            return None
        names = self._read_action().operations.step_names
        if self.claim.begun != len(names):
            return None
        return [step_records.KeptStep(name) for name in names]

    def _read_action(self) -> ScheduledActionModel:
        if self._action is None:
            unknown = find_unknown_steps(self.claim.document["operations"])
            if unknown:
                raise StepError(explain_unknown_steps(unknown), permanent=True)
            self._action = _parse(json.dumps(self.claim.document))
        return self._action

    def _run_step(
        self, step: step_records.KeptStep, following: str | None
    ) -> OperationState | None:
        """
        Run one step, and start the *following* one in the transaction that ends it.

        Returns:
            None to go on; otherwise the new state of the operation.
        """
        self._step = step.name
        self._step_began_at = now = self._read_clock()
        self.check_time()
        self._memo = dict(step.memo)
        action = self._read_action()
        context = make_context(self, action, step.name, self._memo, now)
        arguments = getattr(action.operations, step.name)
        if self.claim.details.get("force") and isinstance(arguments, RefreshModel):
            arguments = arguments.model_copy(update={"force": True})
        try:
            result = call_step(self.steps[step.name], step.name, context, arguments)
        except (MemoryError, OSError, UnreachableError, StepError) as error:
            self.check_time()
            ours = describe_ours(error)
            if ours is not None:
                return self._wait_for_platform(step, ours)
            if not isinstance(error, StepError):
                raise
            return self._handle_failure(step.name, error)
        except PostponedError as error:
            self.check_time()
            return self._postpone(step.name, error)
        except AwaitedError as error:
            return self._await(step.name, error)
        except StepSkippedError as error:
            return self._finish(
                OperationState.SKIPPED, f"{Reason.NO_LONGER_TRUE}: {error}"
            )
        return self._conclude(action, step.name, following, dict(result))

    def _conclude(
        self,
        action: ScheduledActionModel,
        name: str,
        following: str | None,
        result: JsonValue,
    ) -> OperationState | None:
        """Record that a step did what it was to do; return as ``_run_step``."""
        is_refreshed = name == "refresh" and following is not None
        if is_refreshed and not goes_on(self.engine, self.claim, action):
            done = (name, result)
            return self._finish(OperationState.SKIPPED, Reason.UNCHANGED, done)
        spoken = self._spoken.copy()
        try:
            self._end_step(name, following, result)
        except UnreachableError:
            # Perhaps it is this session alone that is gone, for the database was
            # restarted: what the step did is not to be done again for that.
            with reading(self.engine) as connection:
                is_written = step_records.has_succeeded(connection, self.claim, name)
            if not is_written:  # else it was only the answer to the commit that is gone
                self._spoken = spoken
                self._end_step(name, following, result)
        return None

    def check_time(self) -> None:
        """
        Check that the time limit is not reached.

        Raises:
            TimeLimitError: The time limit is reached.
        """
        if self._is_overdue():
            raise TimeLimitError

    def _end_step(self, name: str, following: str | None, result: JsonValue) -> None:
        claim = self.claim
        if following is not None or RETURN_KEY in claim.details:
            with self.holding() as connection:
                # In this order: each reads the clock, and a step must not start before
                # the one before it has ended.
                step_records.finish_step(
                    connection, claim, name, StepState.SUCCEEDED, result=result
                )
                if following is None:
                    step_records.end_resend(connection, claim)
                else:
                    step_records.start_step(connection, claim, following)
            return
        if self._spoken.says_no_more_than_the_result:
            self._spoken.forget()
        if not step_records.finish_last_step(
            self.engine, claim, name, result, self._spoken
        ):
            with reading(self.engine) as connection:
                raise_lost(connection, claim)

    def _handle_failure(self, name: str, error: StepError) -> OperationState:
        """Make the operation pending for another attempt, or failed."""
        claim = self.claim
        left = claim.attempts_allowed - claim.attempt
        again = not error.permanent and left > 0
        text = shorten(str(error), LONGEST_ERROR)
        log.warning(Event.STEP_FAILED, step=name, error=text, again=again)
        self.say(text, level=LogLevel.ERROR)
        told, failed = f"{name}: {text}", OperationState.FAILED
        with self.holding() as connection:
            step_records.finish_step(
                connection, claim, name, StepState.FAILED, error=text
            )
            self._note(connection, AttemptOutcome.FAILED, text)
            if again:
                back_off = read_back_off(claim.document)
                delay = back_off.find_pause(RETRY_DELAY, left=left)
                retry_later(connection, claim, delay=delay, error=told)
                return OperationState.PENDING
            step_records.skip_open_steps(connection, [claim.operation_id])
            reason = f"{Reason.STEP_FAILED}: {name}"
            finish(connection, claim, failed, reason=reason, error=told)
        return failed

    def _postpone(
        self, name: str, error: PostponedError, memo: dict[str, JsonValue] | None = None
    ) -> OperationState:
        """
        Make the operation pending because it waits for something; no attempt counts.

        If *memo* is given, it replaces the memo of the step.
        """
        delay_s = round(error.delay.total_seconds(), 3)
        text = shorten(str(error), LONGEST_ERROR)
        log.warning(Event.OPERATION_POSTPONED, step=name, error=text, delay_s=delay_s)
        self.say(f"postponed for {delay_s:g} s: {text}", level=LogLevel.WARNING)
        why = {"reason": error.reason, "error": f"{name}: {text}"}
        with self.holding() as connection:
            self._note(connection, AttemptOutcome.POSTPONED, text)
            step_records.suspend_step(connection, self.claim, name, text)
            if memo is not None:
                step_records.remember(connection, self.claim, name, memo)
            postpone(connection, self.claim, delay=error.delay, **why)
        return OperationState.PENDING

    def _await(self, name: str, awaited: AwaitedError) -> OperationState:
        """Make the operation pending until it is told how something ended."""
        log.info(Event.OPERATION_WAITS, step=name, what=str(awaited))
        with writing(self.engine) as connection:
            what = shorten(str(awaited), LONGEST_ERROR)
            if await_task(connection, self.claim, within=awaited.within, what=what):
                self._spoken.write(connection, self.claim.operation_id)
                step_records.suspend_step(
                    connection, self.claim, name, result=dict(awaited.result)
                )
                return OperationState.PENDING
            return find_end(connection, self.claim)

    def _wait_for_platform(
        self, step: step_records.KeptStep, text: str
    ) -> OperationState:
        """Make the operation pending until the platform may work again."""
        waits = step.memo.get(_WAITS, 0)
        assert isinstance(waits, int)  # written below
        # The exponent is limited: 2 ** 10 is beyond the longest delay anyway.
        delay = min(PLATFORM_DELAY * 2 ** min(waits, 10), PLATFORM_DELAY_LIMIT)
        error = PostponedError(text, delay=delay, reason=f"{Reason.PLATFORM}: {text}")
        return self._postpone(step.name, error, {**self._memo, _WAITS: waits + 1})

    def put_back(self, error: UnreachableError) -> bool:
        """
        Make the operation pending because the database did not accept a write.

        Returns:
            Whether that worked; if not, the lease of the operation runs out.
        """
        text = str(error)
        why = {"reason": f"{Reason.PLATFORM}: {text}", "error": text}
        with suppress(UnreachableError), writing(self.engine) as connection:
            return postpone(connection, self.claim, delay=PLATFORM_DELAY, **why)
        return False

    def _finish(
        self,
        state: OperationState,
        reason: str | None = None,
        done: tuple[str, JsonValue] | None = None,
    ) -> OperationState:
        """Make the operation final; *done* is a step that ends with it, well."""
        claim = self.claim
        with self.holding() as connection:
            if done is not None:
                name, result = done
                step_records.finish_step(
                    connection, claim, name, StepState.SUCCEEDED, result=result
                )
            if reason is not None:
                self.say(f"{state}: {reason}", level=LogLevel.WARNING)
            step_records.skip_open_steps(connection, [claim.operation_id])
            finish(connection, claim, state, reason=reason)
        return state


@lru_cache(maxsize=256)
def _parse(text: str) -> ScheduledActionModel:
    """Read an action; cached, because it runs often and reading takes most of a run."""
    return ScheduledActionModel.model_validate(json.loads(text))
