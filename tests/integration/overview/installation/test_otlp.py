"""What a collector of OpenTelemetry receives is what Prometheus would read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client import REGISTRY

from actions.lease import Leader
from overview.installation.metrics import giving_metrics
from scheduler_server import run
from settings import Settings
from telemetry import METRICS_OF_WORK, TICKS
from tests.collector import Collector, collecting
from tests.scheduling import make_operation, make_scheduler, make_settings, record_all
from tests.servers import PATIENCE_S

#: Labels and value of each series, by its name.
Series = set[tuple[str, frozenset[tuple[str, str]], float]]


@pytest.fixture
def settings(engine: sa.Engine, database_url: str) -> Settings:
    """Give settings that name a database in which an operation waits."""
    record_all(engine, make_operation())
    return make_settings(DATABASE_URL=database_url, DATABASE_TIMEOUT="PT50S")


def read_registry() -> Series:
    return even(
        {
            (sample.name, frozenset(sample.labels.items()), sample.value)
            for family in REGISTRY.collect()
            for sample in family.samples
            if sample.name.startswith("minutehand_")
            and not sample.name.endswith("_created")
        }
    )


def even(series: Series) -> Series:
    """Return them without the values of work, which is older at each look."""
    return {
        (name, labels, 0 if name in METRICS_OF_WORK else value)
        for name, labels, value in series
    }


def flatten(metrics: list[Any]) -> Series:
    return even({series for each in metrics for series in _flatten(each)})


def _flatten(metric: Any) -> Iterator[tuple[str, frozenset[tuple[str, str]], float]]:
    kind = metric.WhichOneof("data")
    end = "_total" if kind == "sum" else ""
    for point in getattr(metric, kind).data_points:
        labels = frozenset((a.key, a.value.string_value) for a in point.attributes)
        if kind != "histogram":
            yield metric.name + end, labels, point.as_double
            continue
        assert not point.HasField("min")
        bounds = [*map(str, point.explicit_bounds), "+Inf"]
        for bound, below in zip(bounds, accumulate(point.bucket_counts), strict=True):
            yield f"{metric.name}_bucket", labels | {("le", bound)}, below
        yield f"{metric.name}_count", labels, point.count
        yield f"{metric.name}_sum", labels, point.sum


def test_collector_receives_what_prometheus_would_read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """All series of this process and of work, at the latest as the process ends."""
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with giving_metrics(settings, leads=lambda: True):
            TICKS.labels("done").inc()
            wanted = read_registry()

    assert wanted == flatten(collector.metrics)
    names = {name for name, _labels, _value in wanted}
    assert "minutehand_queue_depth" in names
    kept = {each.name: each for each in collector.metrics}
    (counted,) = (
        point
        for point in kept["minutehand_ticks"].sum.data_points
        if point.attributes[0].value.string_value == "done"
    )
    assert kept["minutehand_ticks"].sum.is_monotonic
    assert 0 < counted.start_time_unix_nano < counted.time_unix_nano


@pytest.mark.parametrize("name", ["METRICS_EXPORTER", "TRACES_EXPORTER"])
def test_metrics_can_be_left_out(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str
):
    """By OpenTelemetry's own variable for them; traces have theirs."""
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv(f"OTEL_{name}", "none")
        with giving_metrics(settings, leads=lambda: True):
            pass

    assert (name == "TRACES_EXPORTER") == bool(collector.metrics)


def test_collector_that_hangs_holds_up_no_end(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """A scheduler that stops gives up its last metrics."""
    with collecting(hangs=True) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with giving_metrics(settings, leads=lambda: True):
            pass
        assert not has_answered(collector)


def test_collector_that_hangs_keeps_no_lease_from_a_standby(
    engine: sa.Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """It is asked for the last time when the lease is free."""
    stop = threading.Event()
    scheduler = make_scheduler(engine)
    scheduler.settings = settings
    assert scheduler.leading.hold()
    stop.set()
    with collecting(hangs=True) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        stopping = threading.Thread(target=run, args=(scheduler, stop))
        stopping.start()
        assert collector.asked.wait(PATIENCE_S)

        assert Leader(engine).hold()
        stopping.join(PATIENCE_S)
    assert not stopping.is_alive()


def has_answered(collector: Collector) -> bool:
    return collector.closed.is_set() or bool(collector.metrics)
