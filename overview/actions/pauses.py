"""Whether an action is paused: by itself, with its small app or the installation."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.lookup import get_action
from actions.pausing.pause_state import Pause, PauseJson, get_pause, tag_pause
from actions.posting.revisions import refuse_action
from actions.read_actions import ActionState, get_action_state


class PauseStateJson(TypedDict):
    """Whether an action is paused; ``pause`` is null if it is not."""

    uid: str
    state: ActionState
    pause: PauseJson | None


@dataclass(frozen=True, slots=True)
class PauseState:
    """
    The pause of an action, as the caller may see it.

    Args:
        pause: None: it has none.
        tag: What tells this pause from another, and from none.
    """

    uid: str
    state: ActionState
    pause: Pause | None
    tag: str

    def as_json(self) -> PauseStateJson:
        """Return the documented object; keys are only added."""
        return {
            "uid": self.uid,
            "state": self.state,
            "pause": None if self.pause is None else self.pause.as_json(),
        }


def fetch_pause_state(
    connection: sa.Connection, uid: str, *, app: str | None = None
) -> PauseState:
    """
    Return whether an action is paused.

    Raises:
        NotFoundError: There is no such action, or it is deleted.
    """
    row = get_action(connection, uid, app=app)
    if row.deleted_at is not None:
        refuse_action(uid)
    pause = get_pause(row)
    return PauseState(
        uid, get_action_state(row), pause and pause.seen_by(app), tag_pause(pause)
    )
