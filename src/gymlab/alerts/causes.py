"""Which alert causes which: fixing the cause clears its effects, not the other way round."""

from __future__ import annotations

# Caused by no setting; no other finding can be trusted before these are fixed.
BUGS = ("bounds-broken", "counter-fell")

_OF_POOR_LEARNING = ("return-stalled", "return-collapsed", "greedy-below-sampled", "not-solved", "budget-short")
_OF_BAD_VALUES = (
    "explained-variance-negative",
    "explained-variance-low",
    "gradient-spikes",
    "gradients-always-clipped",
)
_OF_NOTHING_LEARNT = ("entropy-stuck", "kl-low", *_OF_BAD_VALUES)
_EFFECTS = {
    "observation-scale": ("saturated-units", "dead-units", "entropy-collapse", "kl-high", *_OF_NOTHING_LEARNT),
    "saturated-units": ("entropy-collapse", *_OF_NOTHING_LEARNT),
    "reward-never-seen": ("reward-scale", "advantage-scale", *_OF_NOTHING_LEARNT),
    "actions-clipped": _OF_NOTHING_LEARNT,
    "initial-action-mean": _OF_NOTHING_LEARNT,
    "initial-action-std": _OF_NOTHING_LEARNT,
    "reward-scale": ("value-loss-exploding", "kl-high", "kl-low", "entropy-stuck", "entropy-collapse", *_OF_BAD_VALUES),
    "advantage-scale": ("kl-high", "kl-low", "gradient-spikes", "gradients-always-clipped", "entropy-collapse"),
    "kl-high": (
        "clip-fraction-high",
        "kl-stops-often",
        "entropy-collapse",
        "value-loss-exploding",
        "dead-units",
        *_OF_BAD_VALUES,
    ),
    "clip-fraction-high": ("entropy-collapse",),
    "learning-rate-zero": ("kl-low", "entropy-stuck"),
    "kl-low": ("entropy-stuck",),
    "dead-units": ("entropy-collapse", "kl-low", *_OF_BAD_VALUES),
    "value-loss-exploding": _OF_BAD_VALUES,
    "explained-variance-negative": (),
    "entropy-stuck": (),
    "entropy-collapse": ("kl-low",),  # a policy that is certain moves no more
    "initial-policy-not-uniform": ("entropy-collapse",),
    "no-episode-finished": (),
}

CAUSES: tuple[tuple[str, str], ...] = tuple(
    (cause, effect) for cause, effects in _EFFECTS.items() for effect in (*effects, *_OF_POOR_LEARNING)
)
