"""Run worlds: with ids from the seed, and without the real code's log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import structlog

import actions.lease
import dispatch.manual_runs
import operations.claiming.claim
from tests.simulation.strain import in_small_parts, replacing
from tests.simulation.world import Emphasis, Report, World


def simulate(
    seed: int,
    *,
    hours: float = 1,
    say: Callable[[str], None] | None = None,
    emphasis: Emphasis = Emphasis(),  # noqa: B008 - frozen
) -> Report:
    """
    Live through the world of *seed*.

    Args:
        seed: Decides everything.
        hours: With faults; the quiet time after them is not counted.
        say: Told every line of what happens; None: nobody.
        emphasis: What there is more of than the seed draws.

    Raises:
        InvariantError: A promise was broken.
    """
    world = World(seed, hours=hours, say=say, emphasis=emphasis)
    parts = in_small_parts() if emphasis.strain else nullcontext()
    # Drawn from the seed is what the real code takes from the system, too: its tokens.
    takers = (actions.lease, dispatch.manual_runs, operations.claiming.claim)
    ids = replacing(*((each, "uuid4", world.make_id) for each in takers))
    with quiet(), ids, parts:
        return world.run()


@contextmanager
def quiet() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
    )
    try:
        yield
    finally:
        structlog.configure(**before)
