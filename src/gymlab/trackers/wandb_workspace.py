"""A W&B workspace made from the metric catalogue: one section per namespace, one chart per metric or family.

The same catalogue always gives the same bytes, ids included, so that sending it again changes nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

from gymlab.metrics.catalogue import NAMESPACES
from gymlab.metrics.metric import HEADLINE, Limits, Metric

AXIS = "vec_steps"
VIEW_NAME = "nw-gymlab-v"  # W&B's own form of a saved view's name


def workspace(metrics: Mapping[str, Metric], limits: Mapping[str, Limits] | None = None) -> dict[str, Any]:
    """The view as W&B stores it. `limits` are bounds that only a run knows, such as its highest entropy."""
    known = dict(limits or {})
    sections = [
        _section(title, [metric for metric in metrics.values() if metric.namespace == namespace], known)
        for namespace, title in NAMESPACES.items()
        if namespace != "clock"
    ]
    clips = {"__id__": _id("clips"), "viewType": "Media Browser", "config": {"mediaKeys": ["video/best"]}}
    shown = [section for section in sections if section["panels"]]
    return {
        "section": {
            "name": "gymlab",
            "openViz": True,
            "customRunColors": {},
            "settings": {"xAxis": AXIS, "xAxisActive": True, "shouldAutoGeneratePanels": False},
            "panelBankConfig": {
                "state": 0,
                "settings": {"autoOrganizePrefix": 2, "showEmptySections": False, "sortAlphabetically": False},
                "sections": [*shown, {**_frame("Clips"), "panels": [clips]}],
            },
            "panelBankSectionConfig": {"name": "Report Panels", "isOpen": False, "panels": [], "type": "grid"},
        },
        "vizExpanded": False,
        "libraryExpanded": True,
    }


def _section(title: str, metrics: list[Metric], limits: Mapping[str, Limits]) -> dict[str, Any]:
    charts: dict[str, list[Metric]] = {}
    for metric in sorted(metrics, key=lambda metric: (metric.priority, metric.name)):
        charts.setdefault(_chart(metric.name), []).append(metric)
    return {**_frame(title), "panels": [_panel(name, group, limits) for name, group in charts.items()]}


def _frame(title: str) -> dict[str, Any]:
    return {"__id__": _id(f"section {title}"), "name": title, "isOpen": True, "type": "flow", "sorted": 0}


def _chart(name: str) -> str:
    """Parts of one thing share a chart: `opt/loss/value_scaled` and the other scaled losses."""
    return name.rpartition("/")[0] if name.count("/") > 1 and not name.endswith("/*") else name


def _panel(name: str, metrics: list[Metric], limits: Mapping[str, Limits]) -> dict[str, Any]:
    first = metrics[0]
    lows, highs = zip(*(limits.get(metric.name, _fixed(metric)) for metric in metrics), strict=True)
    config: dict[str, Any] = {
        "chartTitle": name,
        "xAxis": AXIS,
        "yAxisTitle": first.unit,
        "legendFields": ["run:displayName"],
        "metrics": [] if first.is_family else [metric.name for metric in metrics],
    }
    if first.is_family:
        config |= {"useMetricRegex": True, "metricRegex": f"^{first.name[:-1]}"}
    if math.isfinite(min(lows)):
        config["yAxisMin"] = min(lows)
    if math.isfinite(max(highs)):
        config["yAxisMax"] = max(highs)
    size = {"w": 12, "h": 8} if first.priority <= HEADLINE else {"w": 8, "h": 6}
    layout = {"x": 0, "y": 0, **size}
    return {"__id__": _id(name), "viewType": "Run History Line Plot", "config": config, "layout": layout}


def _fixed(metric: Metric) -> Limits:
    return (-math.inf, math.inf) if isinstance(metric.bounds, str) else metric.bounds


def _id(name: str) -> str:
    return hashlib.sha256(f"gymlab {name}".encode()).hexdigest()[:12]
