"""
What one next occurrence costs, ours beside croniter's and cronsim's.

Run it as ``python -m benchmarks.occurrences``. Every number is the median of some
rounds over the same 400 instants, spread over a year that includes both clock
changes. "next" is the question a tick asks of a parsed rule; "with parsing" starts
from the text, as those must who keep no parsed rule.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

from actions.when import RULES
from models.expressions.cron import CronExpression
from models.when import CronModel

ZONE = "Europe/Paris"
ROUNDS = 5

_START = datetime(2026, 1, 1, tzinfo=UTC)
_STEP = timedelta(hours=21, minutes=53, seconds=7)
INSTANTS = [_START + number * _STEP for number in range(400)]

CRON_RULES = (
    *("* * * * *", "*/5 * * * *", "0 7 * * *", "30 2 * * *", "0 7 * * 1", "0 0 1 * *"),
    *("0 0 L * *", "0 9 * * 1#1", "0 0 29 2 *", "0 0 29 2 */7"),
)


def measure(ask: Callable[[datetime], object]) -> float:
    """Return the cost of *ask*, in microseconds for one instant."""
    rounds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for instant in INSTANTS:
            ask(instant)
        rounds.append(time.perf_counter() - begin)
    return statistics.median(rounds) / len(INSTANTS) * 1e6


def measure_rule(rule: str, zone: ZoneInfo) -> list[float]:
    """Return next of ours and croniter; with parsing ours, croniter and cronsim."""
    parsed = croniter(rule, _START.astimezone(zone))

    def ask(instant: datetime) -> object:
        parsed.set_current(instant.astimezone(zone), force=True)
        return parsed.get_next(datetime)

    model = CronModel(cron_rule=rule, timezone=ZONE)
    ours = measure(RULES[CronModel](model).next_from)
    parse = CronExpression.parse.__wrapped__  # the other remembers
    parsing = measure(lambda _: parse(CronExpression, rule))
    each = measure(lambda at: croniter(rule, at.astimezone(zone)).get_next(datetime))
    cronsim = measure(lambda at: next(CronSim(rule, at.astimezone(zone))))
    return [ours, measure(ask), ours + parsing, each, cronsim]


def main() -> None:
    print(f"Microseconds for one next occurrence, zone {ZONE}\n")
    print(f"{'':28}{'next':>20}{'with parsing':>30}\n{'rule':<28}", end="")
    names = ("ours", "croniter", "ours", "croniter", "cronsim")
    print("".join(f"{name:>10}" for name in names))
    for rule in CRON_RULES:
        costs = measure_rule(rule, ZoneInfo(ZONE))
        print(f"{rule:<28}" + "".join(f"{cost:>10.1f}" for cost in costs))


if __name__ == "__main__":
    main()
