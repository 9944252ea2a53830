"""How many operations are in each state, for every face."""

from __future__ import annotations

from datetime import datetime

from typing_extensions import TypedDict

from models.operation_state import OperationState
from operations.count_facets import Facets
from operations.count_states import StateCounts


class LiveCountsJson(TypedDict):
    """How many operations are in each live state."""

    pending: int
    queued: int
    running: int


class FinalCountsJson(TypedDict):
    """How many operations are in each final state."""

    succeeded: int
    failed: int
    canceled: int
    skipped: int
    missed: int


class StateCountsJson(TypedDict):
    """The documented object of ``operations counts``."""

    at: datetime
    live: LiveCountsJson
    live_is_whole: bool
    final: FinalCountsJson
    final_since: datetime
    final_is_whole: bool


def make_counts_json(counts: StateCounts) -> StateCountsJson:
    """Return the documented object; keys are only added."""
    live, final = counts.live, counts.final
    return {
        "at": counts.at,
        "live": {
            "pending": live[OperationState.PENDING],
            "queued": live[OperationState.QUEUED],
            "running": live[OperationState.RUNNING],
        },
        "live_is_whole": counts.live_is_whole,
        "final": {
            "succeeded": final[OperationState.SUCCEEDED],
            "failed": final[OperationState.FAILED],
            "canceled": final[OperationState.CANCELED],
            "skipped": final[OperationState.SKIPPED],
            "missed": final[OperationState.MISSED],
        },
        "final_since": counts.since,
        "final_is_whole": counts.final_is_whole,
    }


class FacetsJson(TypedDict):
    """How many operations match, by what each filter of the list might ask."""

    at: datetime
    since: datetime | None
    total: int
    state: dict[str, int]
    retrying: int
    uncertain: int
    reason: dict[str, int]
    queue: dict[str, int]
    trigger: dict[str, int]
    app: dict[str, int]


def make_facets_json(facets: Facets) -> FacetsJson:
    """Return the documented object; keys are only added."""
    return {
        "at": facets.at,
        "since": facets.since,
        "total": facets.total,
        "state": {str(state): count for state, count in facets.states.items()},
        "retrying": facets.retrying,
        "uncertain": facets.uncertain,
        "reason": {str(reason): count for reason, count in facets.reasons.items()},
        "queue": dict(facets.queues),
        "trigger": dict(facets.triggers),
        "app": dict(facets.apps),
    }
