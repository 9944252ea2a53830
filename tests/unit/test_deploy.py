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


_SELECTOR = re.compile(r"\b(minutehand_\w+)(?:{([^}]*)})?")
_MATCHER = re.compile(r'(\w+)(?:=~|!~|!=|=)"[^"]*"')


def read(expression: str) -> set[str]:
    """Return the labels of what is given; what is asked for has to be there."""
    labels = set()
    for name, matchers in _SELECTOR.findall(expression):
        own = find_labels(name)
        assert own is not None, f"there is no metric {name}"
        asked = {_MATCHER.fullmatch(each) for each in matchers.split(",") if each}
        assert {each and each[1] for each in asked} <= own, f"labels of {name}"
        labels |= own
    assert labels, "no metric"
    groups = re.findall(r"\bby \(([^)]*)\)", expression)
    grouped = {label for group in groups for label in group.split(", ")}
    assert grouped <= labels, f"{grouped - labels} are no labels"
    assert expression.count("(") == expression.count(")"), "brackets"
    for series in re.findall(r"\b(?:rate|increase)\((.*?)\)", expression):
        assert re.search(r"\[\d+[smhd]\]$", series), f"{series} of what time?"
    if "histogram_quantile" in expression:
        assert "le" in labels, "a quantile of what has no buckets"
    return grouped or labels


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
    named = set(re.findall(r"\$labels\.(\w+)", rule.texts))

    assert named <= read(rule.expression)


def test_broker_that_takes_nothing_is_one_alarm():
    """
    Whether the leader heard so, or operations are late to be sent.

    Workers that cannot reach it count as none, which is no alarm meanwhile.
    """
    rung = {rule.name: rule.expression.split(" unless ") for rule in RULES}
    _workers, *silenced = rung["MinutehandQueueWithoutWorker"]
    alarms = {
        name
        for name, (expression, *_unless) in rung.items()
        for sign, looks in re.findall(r'look(=~?|!~)"([^"]*)"', expression)
        for look in ("sending", "outbox")
        if (look in looks.split("|")) != (sign == "!~")
    }
    counted = [rule for rule in RULES if "_send_errors_" in rule.expression]

    assert 1 == len(alarms) + len(counted)
    assert "sending|outbox" in "".join(silenced)


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_panel_has_something_to_show(panel: dict[str, Any]):
    """Its metrics and labels are there, also those of its legends."""
    for target in panel["targets"]:
        named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))

        assert named <= read(target["expr"])


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
        "minutehand_queue_depth{queue}",
    ],
)
def test_what_is_wrong_is_found(expression: str):
    """Else what is accepted would mean nothing."""
    with pytest.raises(AssertionError):
        read(expression)
