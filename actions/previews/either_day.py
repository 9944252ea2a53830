"""
Cron rules that run on more days than their author may have meant. Pure.

A rule with a day of the month and a day of the week is due on days that match one of
the two, as in Debian's cron, while most people who write both mean both.
"""

from __future__ import annotations

from collections.abc import Iterator

from models.errors import Problem
from models.expressions.cron import CronExpression
from models.expressions.cron_hints import find_both_days
from models.scheduled_action import ScheduledActionModel
from models.when import CronModel


def find_either_days(action: ScheduledActionModel) -> Iterator[Problem]:
    """Yield a problem for each cron rule of *action* whose day fields both count."""
    many = isinstance(action.when, tuple)
    rules = action.when if isinstance(action.when, tuple) else (action.when,)
    for index, rule in enumerate(rules):
        if not isinstance(rule, CronModel):
            continue
        instead = find_both_days(CronExpression.parse(rule.cron_rule).canonical)
        if instead is None:
            continue
        place = f"/when/{index}/cron_rule" if many else "/when/cron_rule"
        message = (
            f"'{rule.cron_rule}' runs on days that match its day of the month or its"
            " day of the week; one is enough."
        )
        hint = f"For days that match both, write {instead}." if instead else ""
        yield Problem(place, message, hint)
