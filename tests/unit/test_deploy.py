"""Alert rules and the dashboard ask for what is there, in expressions that hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Histogram

from telemetry import METRICS

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "dashboard.json"

#: What a series has besides its own: given by Prometheus to each.
GIVEN_LABELS = {"instance", "job"}

FUNCTIONS = {"abs", "absent", "histogram_quantile", "increase", "rate", "time"}
AGGREGATIONS = {"sum", "max", "min", "avg", "count"}
WORDS = {"by", "on", "and", "or", "unless"}
OPERATORS = {
    ">",
    "<",
    ">=",
    "<=",
    "==",
    "!=",
    "+",
    "-",
    "*",
    "/",
    "and",
    "or",
    "unless",
}

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<name>[a-zA-Z_:][\w:]*) | (?P<number>\d+(?:\.\d+)?(?![\w.]))
    | (?P<string>"[^"\\]*") | (?P<range>\[\d+[smhd]\])
    | (?P<mark>[<>=!]=|=~|!~|[-+*/<>=(){},])
    )""",
    re.VERBOSE,
)


def split(expression: str) -> list[tuple[str, str]]:
    """Return the tokens of *expression*, each with its kind."""
    tokens, at = [], 0
    text = expression.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, f"{text[at:]!r} of {expression!r} is no PromQL"
        assert match.lastgroup is not None
        tokens.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return tokens


def find_labels(metric: str) -> set[str] | None:
    """Return the labels of the series *metric*; None if there is none."""
    for suffix in ("_bucket", "_sum", "_count"):
        base = METRICS.get(metric.removesuffix(suffix))
        if metric.endswith(suffix) and isinstance(base, Histogram):
            own = {"le"} if suffix == "_bucket" else set()
            return {*base._labelnames, *own, *GIVEN_LABELS}
    found = METRICS.get(metric)
    if found is None or isinstance(found, Histogram):
        return None
    return {*found._labelnames, *GIVEN_LABELS}


class Reader:
    """
    Reads the part of PromQL that we write, strictly; returns nothing, and raises.

    It is no PromQL: what it accepts, Prometheus accepts, and what it does not know,
    we do not write.
    """

    def __init__(self, expression: str) -> None:
        """Take it apart."""
        self.tokens = [*split(expression), ("end", "")]
        self.at = 0
        #: Of the metrics read so far within this operand.
        self.labels: set[str] = set()

    def take(self, *texts: str) -> str | None:
        """Take the next token if it is one of *texts*."""
        kind, text = self.tokens[self.at]
        if text in texts and kind != "end":
            self.at += 1
            return text
        return None

    def need(self, text: str) -> None:
        """Take *text*, which has to come."""
        assert self.take(text), f"{text!r} expected, not {self.tokens[self.at]}"

    def read(self) -> None:
        """Read all of it."""
        self.read_operations()
        assert self.tokens[self.at][0] == "end", f"left: {self.tokens[self.at :]}"

    def read_operations(self) -> None:
        """Read operands with operators between them."""
        self.read_operand()
        while self.take(*OPERATORS):
            if self.take("on"):
                self.read_grouping()
            self.read_operand()

    def read_operand(self) -> None:
        """Read a number, a group, a call, or a metric."""
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return
        if text == "(":
            self.read_operations()
            self.need(")")
        elif text in AGGREGATIONS:
            asked = self.read_grouping() if self.take("by") else set()
            self.need("(")
            self.labels = set()
            self.read_operations()
            self.need(")")
            assert asked <= self.labels, f"{asked - self.labels} are no labels"
            self.labels = asked or self.labels
        elif text in FUNCTIONS:
            self.read_arguments(text)
        else:
            assert kind == "name", f"a metric expected, not {text!r}"
            self.read_metric(text)

    def read_arguments(self, function: str) -> None:
        """Read what stands in the brackets of a call."""
        self.need("(")
        if function == "histogram_quantile":
            assert self.tokens[self.at][0] == "number"
            self.at += 1
            self.need(",")
        if function != "time":
            self.read_operations()
        if function in {"increase", "rate"}:
            previous = self.tokens[self.at - 1]
            assert previous[0] == "range", f"{function} of what time?"
        if function == "histogram_quantile":
            assert "le" in self.labels, "a quantile of what has no buckets"
        self.need(")")

    def read_grouping(self) -> set[str]:
        """Read labels in brackets."""
        self.need("(")
        names = set()
        while not self.take(")"):
            kind, text = self.tokens[self.at]
            assert kind == "name", f"a label expected, not {text!r}"
            names.add(text)
            self.at += 1
            self.take(",")
        return names

    def read_metric(self, name: str) -> None:
        """Read a metric that there is, with matchers of labels that it has."""
        labels = find_labels(name)
        assert labels is not None, f"there is no metric {name}"
        self.labels |= labels
        if self.take("{"):
            while not self.take("}"):
                kind, text = self.tokens[self.at]
                assert kind == "name", f"a label expected, not {text!r}"
                assert text in labels, f"{name} has no label {text}"
                self.at += 1
                assert self.take("=", "!=", "=~", "!~")
                assert self.tokens[self.at][0] == "string"
                self.at += 1
                self.take(",")
        if self.tokens[self.at][0] == "range":
            self.at += 1


@dataclass(frozen=True, slots=True)
class Rule:
    """An alert."""

    name: str
    expression: str
    texts: str


def read_rules() -> Iterator[Rule]:
    """Return the alerts."""
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            assert {"alert", "expr", "labels", "annotations"} <= set(rule)
            assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
            texts = " ".join(rule["annotations"].values())
            yield Rule(rule["alert"], rule["expr"], texts)


RULES = list(read_rules())
PANELS: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_alert_can_fire(rule: Rule):
    """Its metrics and labels are there, also those that its texts name."""
    reader = Reader(rule.expression)
    reader.read()

    named = set(re.findall(r"\$labels\.(\w+)", rule.texts))
    assert named <= reader.labels


def test_broker_that_takes_nothing_is_one_alarm():
    """Whether the leader heard so, or operations are late to be sent."""
    alarms = {
        rule.name
        for rule in RULES
        for sign, looks in re.findall(r'look(=~?|!~)"([^"]*)"', rule.expression)
        for look in ("sending", "outbox")
        if (look in looks.split("|")) != (sign == "!~")
    }
    counted = [rule for rule in RULES if "_send_errors_" in rule.expression]

    assert 1 == len(alarms) + len(counted)


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_panel_has_something_to_show(panel: dict[str, Any]):
    """Its metrics and labels are there, also those of its legends."""
    for target in panel["targets"]:
        reader = Reader(target["expr"])
        reader.read()

        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= reader.labels


def test_panels_have_places_of_their_own():
    """Ids are unique, and nothing lies over another."""
    places = [
        (x, y)
        for place in (panel["gridPos"] for panel in PANELS)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(places) == len(set(places))
    assert max(x for x, _y in places) < 24
    assert len(PANELS) == len({panel["id"] for panel in PANELS})


@pytest.mark.parametrize(
    "expression",
    [
        "minutehand_no_such_metric",
        'minutehand_queue_depth{app="x"}',
        "sum by (app) (minutehand_queue_depth)",
        "sum(minutehand_queue_depth",
        "rate(minutehand_send_errors_total)",
        "histogram_quantile(0.9, minutehand_queue_depth)",
        "minutehand_tick_seconds > 3",
        "minutehand_queue_depth >",
        "minutehand_queue_depth ! 3",
    ],
)
def test_reader_of_expressions_refuses_what_is_wrong(expression: str):
    """Else what it accepts would mean nothing."""
    with pytest.raises(AssertionError):
        Reader(expression).read()
