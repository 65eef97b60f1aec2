"""Alert rules for gradient norms and dead units."""

from __future__ import annotations

import math

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import Advice, AlertRule, Evidence, Judged, JudgedRow, Memory
from gymlab.alerts.overrides import advice, changed, lower_rate

SPIKE = 100.0  # times the usual
FORGET = 0.05  # how much one update counts in what is usual
DEAD = 0.5
ALWAYS = 20.0  # times max_grad_norm
SATURATED = 0.8  # of a first layer, whose inputs are too large
SATURATED_DEEP = 0.95  # of a later one: a value net that knows the returns' ends is at 0.8


def _spikes(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    norm = row.metrics["opt/grad_norm"]
    if math.isnan(norm) or norm <= 0:
        return None
    size = math.log(min(norm, 1e300))
    usual = memory.get("usual", size)
    seen = memory.get("seen", 0.0)
    failing = seen >= 10 and size - usual > math.log(SPIKE)
    # A spike counts towards what is usual like a tenfold norm, so that it cannot hide the next one.
    moved = usual + max(FORGET, 1 / (seen + 1)) * (min(size, usual + math.log(10)) - usual)
    return Judged(
        Evidence(
            "opt/grad_norm",
            f"gradient norm {norm:.3g}, {math.exp(size - usual):.3g} times the usual {math.exp(usual):.3g}",
            {"grad_norm": norm, "usual": math.exp(usual)},
        )
        if failing
        else None,
        {"usual": moved, "seen": seen + 1},
    )


def _steady(run: RunContext, evidence: Evidence) -> Advice:
    clip = run.number("max_grad_norm") or 0.0
    if clip > 1.0:
        return advice("Clip gradients harder.", changed(run, "max_grad_norm", 0.5))
    scaled = {} if run.settings.get("normalize.reward") else changed(run, "normalize.reward", True)
    return advice(
        "Rare batches throw the weights about: look at the rewards of these updates, and normalise them or lower "
        "learning_rate.",
        scaled or lower_rate(run, 0.3),
    )


SPIKES = AlertRule(
    "gradient-spikes",
    "warning",
    "the gradient norm spikes",
    f"Gradients more than {SPIKE:g} times the usual norm, twice within fifty updates.",
    ("opt/grad_norm",),
    _spikes,
    _steady,
    raise_after=2,
    of=50,
    clear_after=50,
    requests_histograms=True,
)


def _always(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    norm = row.metrics["opt/grad_norm"]
    clip = row.metrics["hp/max_grad_norm"]
    if math.isnan(norm) or clip <= 0:
        return None
    return Judged(
        Evidence(
            "opt/grad_norm",
            f"gradient norm {norm:.3g}, clipped to {clip:g}: all steps have one length",
            {"grad_norm": norm, "max_grad_norm": clip},
        )
        if norm > ALWAYS * clip
        else None
    )


CLIPPED = AlertRule(
    "gradients-always-clipped",
    "info",
    "every gradient is clipped hard",
    f"The gradient norm is above {ALWAYS:g} times max_grad_norm in nearly all of twenty updates. With Adam that is "
    "mostly harmless; where the value loss causes it, its gradient drowns the policy's.",
    ("opt/grad_norm", "hp/max_grad_norm"),
    _always,
    lambda run, _: advice(
        "Rewards of ordinary size bring gradients down; else raise max_grad_norm.",
        {} if run.settings.get("normalize.reward") else changed(run, "normalize.reward", True),
    ),
    raise_after=19,
    of=20,
    clear_after=10,
    after=0.1,
)


def _worst_layer(row: JudgedRow, family: str) -> tuple[str, str, float] | None:
    """The metric, the layer and the share of the layer where most units are so; None where none was measured."""
    layers = {name: value for name, value in row.metrics.items() if name.startswith(family)}
    worst = max(layers, key=lambda name: (layers[name], name), default="")
    if not worst or any(math.isnan(value) for value in layers.values()):
        return None
    return worst, worst.removeprefix(family).removeprefix("/") or "all layers", layers[worst]


def _dead(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    found = _worst_layer(row, "opt/dead_units")
    if found is None:
        return None
    name, layer, share = found
    text = f"{share:.0%} of the units of {layer} gave 0 for every sample"
    return Judged(Evidence(name, text, {"share": share}) if share > DEAD else None)


def _revive(run: RunContext, evidence: Evidence) -> Advice:
    relu = run.settings.get("policy.activation") == "relu"
    high = (run.number("learning_rate") or 0.0) > 3e-3
    return advice(
        "Units that give 0 for everything learn no more: tanh units cannot die, a lower learning_rate kills fewer.",
        changed(run, "policy.activation", "tanh") if relu else {},
        lower_rate(run, 0.3) if high else {},
    )


DEAD_UNITS = AlertRule(
    "dead-units",
    "warning",
    "units of the network are dead",
    f"In some layer more than {DEAD:.0%} of the ReLU units give 0 for every sample of the batch.",
    ("opt/dead_units*",),
    _dead,
    _revive,
    raise_after=2,
    of=3,
    clear_after=3,
    requests_histograms=True,
)


def _saturated(row: JudgedRow, memory: Memory, run: RunContext) -> Judged | None:
    found = _worst_layer(row, "opt/saturated_units")
    if found is None or run.reached(row.metrics.get("roll/return_mean", math.nan)):
        return None
    name, layer, share = found
    limit = SATURATED if layer.endswith(".0") else SATURATED_DEEP
    text = f"{share:.0%} of the activations of {layer} lie beyond ±0.97, where hardly any gradient passes"
    return Judged(Evidence(name, text, {"share": share}) if share > limit else None)


def _desaturate(run: RunContext, evidence: Evidence) -> Advice:
    if not run.settings.get("normalize.obs"):
        return advice("Inputs or weights are too large: normalise observations.", changed(run, "normalize.obs", True))
    return advice("Weights have grown too large: a lower learning_rate.", lower_rate(run, 0.3))


SATURATED_UNITS = AlertRule(
    "saturated-units",
    "warning",
    "units of the network are saturated",
    f"More than {SATURATED:.0%} of the activations of tanh units in a first layer, or {SATURATED_DEEP:.0%} in a later "
    "one, lie beyond ±0.97 before the goal is reached: the layer tells inputs apart by their sign only and hardly "
    "learns.",
    ("opt/saturated_units*",),
    _saturated,
    _desaturate,
    raise_after=2,
    of=3,
    clear_after=3,
)

RULES = (SPIKES, CLIPPED, DEAD_UNITS, SATURATED_UNITS)
