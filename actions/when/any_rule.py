"""The rule of any time kind. Pure."""

from __future__ import annotations

from actions.when import RULES
from actions.when.excluding import DaysOff
from actions.when.rule import Rule
from actions.when.working_day import WorkingDayRule
from models.when import TimeModel


def make_rule(model: TimeModel, excluded: DaysOff | None = None) -> Rule:
    """
    Parse *model*, which the door has read.

    Args:
        model: Any time kind.
        excluded: The days that its action excepts, on which working days depend. None:
            it excepts none.

    Raises:
        RuleError: It cannot be read any more: its zone was withdrawn.
    """
    rule = RULES[type(model)](model)
    if excluded is not None and isinstance(rule, WorkingDayRule):
        return rule.without(excluded)
    return rule
