"""
The metrics by OTLP, out of the registry that Prometheus reads: one source of figures.

Imported where the extra ``otel`` is installed and a collector is named. A thread of
OpenTelemetry's reads and sends them, as often as its variables say.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import export
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import REGISTRY
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

import tracing

#: What all of ours begin with; the registry has others, of Python and of the process.
_OURS = "minutehand_"

_CUMULATIVE = export.AggregationTemporality.CUMULATIVE

#: What tells one series of a family from the others; its samples, by what ends a name.
_Labels = tuple[tuple[str, str], ...]
_Parts = Mapping[str, list[Sample]]
_Series = defaultdict[_Labels, defaultdict[str, list[Sample]]]


def start_sending() -> export.PeriodicExportingMetricReader:
    """Start the thread; it sends once more when it is shut down."""
    reader = export.PeriodicExportingMetricReader(OTLPMetricExporter())
    resource = tracing.make_resource()

    def collect(_reader: object, timeout_millis: float) -> export.MetricsData:  # noqa: ARG001
        metrics = make_metrics(REGISTRY.collect(), time.time_ns())
        scope = export.ScopeMetrics(InstrumentationScope("minutehand"), metrics, "")
        return export.MetricsData([export.ResourceMetrics(resource, [scope], "")])

    # As a MeterProvider does, which has instruments of its own.
    reader._set_collect_callback(collect)  # noqa: SLF001
    return reader


def make_metrics(families: Iterable[Family], now_ns: int) -> list[export.Metric]:
    """Return those of *families* that are ours and have series, as of *now_ns*."""
    return [
        export.Metric(each.name, each.documentation, "", _make_data(each, now_ns))
        for each in families
        if each.name.startswith(_OURS) and each.samples
    ]


def _make_data(
    family: Family, now_ns: int
) -> export.Sum | export.Gauge | export.Histogram:
    is_spread = family.type == "histogram"  # "le" is a label like others elsewhere
    series: _Series = defaultdict(lambda: defaultdict(list))
    for each in family.samples:
        labels = {name: each.labels[name] for name in sorted(each.labels)}
        if is_spread:
            labels.pop("le", None)
        series[tuple(labels.items())][each.name.removeprefix(family.name)].append(each)
    if is_spread:
        spreads = [_make_spread(*each, now_ns) for each in series.items()]
        return export.Histogram(spreads, _CUMULATIVE)
    points = [_make_point(*each, now_ns) for each in series.items()]
    if family.type == "counter":
        return export.Sum(points, _CUMULATIVE, is_monotonic=True)
    return export.Gauge(points)


def _make_point(labels: _Labels, parts: _Parts, now_ns: int) -> export.NumberDataPoint:
    [counted] = parts["_total"] or parts[""]
    return export.NumberDataPoint(
        dict(labels), _find_start(parts), now_ns, counted.value
    )


def _make_spread(
    labels: _Labels, parts: _Parts, now_ns: int
) -> export.HistogramDataPoint:
    below = [int(each.value) for each in parts["_bucket"]]
    unknown: Any = None  # the least and the greatest, which nobody keeps
    return export.HistogramDataPoint(
        dict(labels),
        _find_start(parts),
        now_ns,
        count=below[-1],
        sum=parts["_sum"][0].value,
        bucket_counts=[n - less for n, less in zip(below, [0, *below], strict=False)],
        explicit_bounds=[float(each.labels["le"]) for each in parts["_bucket"]][:-1],
        min=unknown,
        max=unknown,
    )


def _find_start(parts: _Parts) -> int:
    """Return since when it counts, in nanoseconds since 1970; 0: it does not count."""
    return int(sum(each.value for each in parts["_created"]) * 1e9)
