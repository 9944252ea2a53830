"""The rule of any time kind: one of ours, or one that a package adds. Pure."""

from __future__ import annotations

from actions.when import RULES
from actions.when.installed import InstalledRule
from actions.when.rule import Rule
from models.when import InstalledWhen, TimeModel


def make_rule(model: TimeModel) -> Rule:
    """
    Parse *model*, which the door has read.

    Raises:
        RuleError: It cannot be read any more: its zone was withdrawn.
    """
    if isinstance(model, InstalledWhen):
        return InstalledRule.make(model)
    return RULES[type(model)](model)
