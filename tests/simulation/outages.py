"""Outages: what goes wrong for a while, or once, at a moment that the seed chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.actors import stop_gently
from tests.simulation.loop import HOUR, MINUTE, SECOND, Process

if TYPE_CHECKING:
    from tests.simulation.world import World


def plan_outages(world: World) -> None:
    """Put outages on the calendar of *world*."""
    outages = Outages(world)
    kinds = (
        outages.kill,
        outages.kill,
        outages.stop,
        outages.stop_frozen_leader,
        outages.freeze,
        outages.take_database_down,
        outages.take_broker_down,
        outages.take_their_broker_down,
        outages.cut_off,
        outages.make_broker_forget,
        outages.turn_mail_server,
        outages.make_clock_jump,
    )
    rng = world.rng
    for _number in range(int(rng.uniform(4, 14) * world.length / HOUR)):
        at = rng.randrange(world.length)
        world.loop.call(rng.choice(kinds), delay=at)
    for name in world.emphasis.outages:
        world.loop.call(getattr(outages, name), delay=rng.randrange(world.length))


@dataclass(eq=False, slots=True)
class Outages:
    """The kinds of outages; each call is one, from now on."""

    world: World

    def kill(self) -> None:
        """Kill a process; another takes its place."""
        self._note("kill")
        self.world.end(self._victim())

    def stop(self) -> None:
        """Ask a process to stop, as a deployment does."""
        self._note("stop")
        process = self._victim()
        if process.runs is not None and process.alive:
            stop_gently(self.world, process)

    def stop_frozen_leader(self) -> None:
        """Ask a leader to stop that hangs for longer than its lease."""
        for place in sorted(self.world.places):
            process = self.world.places[place]
            leads = process.kind == "scheduler" and process.runs is not None
            if leads and process.alive and process.runs.leader.fence is not None:
                self._note("stop of a frozen leader")
                until = self.world.loop.now + 3 * MINUTE
                process.frozen_until = max(process.frozen_until, until)
                stop_gently(self.world, process)
                return

    def freeze(self) -> None:
        """Stop a process for a while; sometimes with its monotonic clock."""
        self._note("freeze")
        suspend = self.world.rng.random() < 0.3
        self.world.freeze(self._victim(), suspend=suspend)

    def take_database_down(self) -> None:
        """Make the database unreachable for up to eight minutes."""
        self._note("database down")
        self.world.down_until = self._until(8 * MINUTE)

    def take_broker_down(self) -> None:
        """Make the broker unreachable for up to half an hour."""
        self._note("broker down")
        self.world.broker.down_until = self._until(30 * MINUTE)

    def take_their_broker_down(self) -> None:
        """The same with the broker of somebody's tasks."""
        self._note("their broker down")
        self.world.theirs.down_until = self._until(30 * MINUTE)

    def cut_off(self) -> None:
        """Part one process from the database or the broker."""
        what = self.world.rng.choice(["database", "broker"])
        self._note(f"cut off from {what}")
        self._victim().cut_off[what] = self._until(10 * MINUTE)

    def make_broker_forget(self) -> None:
        """Lose every message that waits."""
        self._note("broker forgets")
        self.world.broker.flush()

    def turn_mail_server(self) -> None:
        """Take the mail server down, or bring it back."""
        self._note("mail server down or up")
        self.world.mail_server.down = not self.world.mail_server.down

    def make_clock_jump(self) -> None:
        """Set the database's clock forward or back, by up to two hours."""
        if self.world.clock_jumps:
            self._note("clock jump")
            sign = self.world.rng.choice([-1, 1])
            farthest = self.world.rng.choice([15 * MINUTE, 2 * HOUR])
            self.world.jump += sign * self.world.rng.randrange(farthest)

    def _victim(self) -> Process:
        places = self.world.places
        return places[self.world.rng.choice(sorted(places))]

    def _until(self, longest: int) -> int:
        return self.world.loop.now + self.world.rng.randrange(SECOND, longest)

    def _note(self, what: str) -> None:
        self.world.faults.counts[f"outage: {what}"] += 1
        self.world.trace("world", what)
