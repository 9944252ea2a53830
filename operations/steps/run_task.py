"""run_task: send a task to the user's own Celery application, behind other steps."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import JsonValue

from models.errors import AwaitedError
from models.run_task import RunTaskModel
from operations.foreign_tasks import LOOKED_UP, make_task
from operations.ports import StepContext, StepResult

_OF_APP, *_OF_USER = LOOKED_UP


def run_task(context: StepContext, asked: RunTaskModel) -> StepResult:
    """
    Send the task *asked* for, at least once, always under the same id; perhaps wait.

    A task that is the only step is sent by the leader, without a worker: see
    operations/sending/tasks.py.

    Returns:
        ``ForeignTask.describe`` of the task, whose end nobody waits for.

    Raises:
        AwaitedError: The task was sent, and its answer ends the operation.
        StepError: Temporary: the broker did not accept the task. Permanent: the
            worker's settings forbid the queue or the connection, or a text has a
            placeholder that has no value.
    """
    found = _look_up(context, asked.placeholders)
    token = context.make_token() if asked.wait else None
    sent = context.ports.tasks.send(make_task(context, asked, found, token=token))
    context.say(f"sent {sent.name} to {sent.place}, task id {sent.id}")
    if asked.wait:
        raise AwaitedError(sent.name, within=asked.longest_wait, result=sent.describe())
    return sent.describe()


def _look_up(context: StepContext, names: Collection[str]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    directory = context.ports.directory
    if _OF_APP in names:
        app = directory.get_app(context.app)
        found[_OF_APP] = None if app is None else app.name
    if not set(_OF_USER).isdisjoint(names):
        who = context.user_id
        user = None if who is None else directory.get_user(context.app, who)
        for name in _OF_USER:
            found[name] = getattr(user, name.removeprefix("user."), None) or None
    return found
