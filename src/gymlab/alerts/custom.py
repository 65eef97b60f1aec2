"""Custom alert rules, as written in a recipe:
`{id, metric, above | below | nan, for: 3 of 5, after: 10%, severity, advice, try: {key: value}}`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import SEVERITIES, Advice, AlertRule, Evidence, Judged, JudgedRow, Memory, Severity
from gymlab.alerts.overrides import advice, changed, scaled
from gymlab.core.clock import parse_number
from gymlab.core.errors import suggestion
from gymlab.core.types import Json, JsonObject
from gymlab.metrics.catalogue import METRICS, NAMESPACES, declared

KEYS = ("id", "metric", "above", "below", "nan", "for", "after", "severity", "advice", "try")
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FOR = re.compile(r"(\d+)(?:\s+of\s+(?:the\s+last\s+)?(\d+))?(?:\s+updates)?")
_TIMES = re.compile(r"[x×]\s*(\d*\.?\d+(?:e-?\d+)?)")


@dataclass(frozen=True)
class CustomRule:
    """One validated rule. `written` is the recipe's own text of it."""

    id: str
    metric: str
    above: float = math.inf
    below: float = -math.inf
    nan: bool = False
    hits: int = 3
    of: int = 5
    after: float = 0.0
    severity: Severity = "warning"
    advice: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[str, Any] = field(default_factory=dict)

    def rule(self) -> AlertRule:
        """The rule in the engine's form."""
        return AlertRule(
            self.id,
            self.severity,
            self.advice or f"{self.metric} {self._condition()}",
            f"Of this recipe: {self.metric} {self._condition()} in {self.hits} of {self.of} updates.",
            (self.metric,),
            self._judge,
            self._advise,
            raise_after=self.hits,
            of=self.of,
            clear_after=self.of,
            after=self.after,
        )

    def _judge(self, row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
        value = row.metrics[self.metric]
        if math.isnan(value):
            if not self.nan:
                return None
            return Judged(Evidence(self.metric, f"{self.metric} is not a number"))
        if not (value > self.above or value < self.below):
            return Judged()
        return Judged(Evidence(self.metric, f"{self.metric} is {value:.4g}: {self._condition()}", {"value": value}))

    def _advise(self, run: RunContext, evidence: Evidence) -> Advice:
        return advice(self.advice, *(changed(run, key, _tried(run, key, v)) for key, v in self.overrides.items()))

    def _condition(self) -> str:
        parts = [f"above {self.above:g}"] * (self.above < math.inf) + [f"below {self.below:g}"] * (
            self.below > -math.inf
        )
        return " or ".join([*parts, *(["not a number"] if self.nan else [])])


def parse_rules(raw: Json) -> tuple[CustomRule, ...]:
    """Parse a recipe's list; ValueError says which rule is wrong and how."""
    if not isinstance(raw, list | tuple):
        raise ValueError(f"expected a list of rules, got {raw!r}")
    rules = tuple(
        rule if isinstance(rule, CustomRule) else parse_rule(rule, place) for place, rule in enumerate(raw, 1)
    )
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise ValueError(f"two rules are called '{rule.id}'")
        seen.add(rule.id)
    return rules


def parse_rule(raw: Json, place: int = 1) -> CustomRule:
    """Parse one rule; ValueError names it, the key and the nearest valid name."""
    if not isinstance(raw, Mapping):
        raise ValueError(f"rule {place}: expected keys such as id, metric and above, got {raw!r}")
    label = f"rule '{raw['id']}'" if "id" in raw else f"rule {place}"
    try:
        return _rule(raw)
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from None


def _rule(raw: JsonObject) -> CustomRule:
    for key in raw:
        if key not in KEYS:
            raise ValueError(f"unknown key '{key}': {suggestion(str(key), KEYS)}")
    name = _text(raw, "id")
    measured = _text(raw, "metric")
    if not _ID.fullmatch(name):
        raise ValueError("an id is small letters, digits and hyphens, such as my-rule")
    nan = raw.get("nan", False)
    if not isinstance(nan, bool):
        raise ValueError(f"'nan' is true or false, got {raw['nan']!r}")
    if "above" not in raw and "below" not in raw and not nan:
        raise ValueError("it needs 'above', 'below' or 'nan: true'")
    hits, of = _times(raw.get("for", "3 of 5"))
    severity = raw.get("severity", "warning")
    if severity not in SEVERITIES:
        raise ValueError(f"unknown severity {severity!r}: {suggestion(str(severity), SEVERITIES)}")
    tried = raw.get("try", {})
    if not isinstance(tried, Mapping) or not all(isinstance(key, str) for key in tried):
        raise ValueError(f"'try' is a block of settings such as {{ppo.learning_rate: 1e-4}}, got {tried!r}")
    return CustomRule(
        id=name,
        metric=_metric(measured),
        above=_number(raw, "above", math.inf),
        below=_number(raw, "below", -math.inf),
        nan=nan,
        hits=hits,
        of=of,
        after=_progress(raw.get("after", 0)),
        severity=severity,
        advice=str(raw.get("advice", "")),
        overrides=dict(tried),
        written=dict(raw),
    )


def _text(raw: JsonObject, key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str):
        raise ValueError(f"'{key}' is missing" if key not in raw else f"'{key}' is text, got {value!r}")
    return value


def _metric(name: str) -> str:
    """A name in one of gymlab's namespaces must be declared; others are the user's own."""
    if declared(name) is None and name.partition("/")[0] in (*NAMESPACES, name):
        raise ValueError(f"unknown metric '{name}': {suggestion(name, [metric.name for metric in METRICS])}")
    return name


def _number(raw: JsonObject, key: str, default: float) -> float:
    value = parse_number(raw.get(key, default))
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ValueError(f"'{key}' is a number, got {raw[key]!r}")
    return float(value)


def _times(raw: Json) -> tuple[int, int]:
    found = _FOR.fullmatch(str(raw).strip()) if not isinstance(raw, bool) else None
    if found is None:
        raise ValueError(f"'for' is a number of updates such as '3 of 5', got {raw!r}")
    hits = int(found[1])
    of = int(found[2] or found[1])
    if not 0 < hits <= of <= 1000:
        raise ValueError(
            f"'for' is '3 of 5': at least 1, and no more than the second, which is at most 1000, got {raw!r}"
        )
    return hits, of


def _progress(raw: Json) -> float:
    value = parse_number(raw)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"'after' is a share of the budget such as 10%, got {raw!r}")
    return float(value)


def _tried(run: RunContext, key: str, value: Json) -> Json:
    """The value to try; `x0.5` is half of the current one."""
    found = _TIMES.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else scaled(run.written(key), float(found[1]))
