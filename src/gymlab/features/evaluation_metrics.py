"""Shared by EvaluateSync and EvaluateAsync: episode seeds, the metrics of an evaluation, and the warm-up."""

from __future__ import annotations

from collections.abc import Mapping

from gymlab.core.clock import Clock
from gymlab.core.rng import generator
from gymlab.training.evaluation import Evaluation
from gymlab.training.events import EvaluationKind, FeatureState


def episode_seed(seed: int, kind: EvaluationKind, clock: Clock) -> int:
    """Periodic evaluations play the same episodes, so that they compare; a confirming one has its own."""
    if kind == "periodic":
        return seed
    return int(generator(seed, "confirming evaluation", clock.updates).integers(2**31))


def evaluation_metrics(evaluation: Evaluation, seconds: float | None) -> dict[str, float]:
    """An evaluation as metrics; `seconds` is None where its time is already told."""
    values = {"eval/compiled": float(evaluation.source == "compiled")}
    if seconds is not None:
        values["time/evaluate"] = seconds
    for mode, score in (("greedy", evaluation.greedy), ("sampled", evaluation.sampled)):
        values |= {
            f"eval/{mode}_mean": score.mean,
            f"eval/{mode}_std": score.std,
            f"eval/{mode}_low": score.low,
            f"eval/{mode}_high": score.high,
            f"eval/{mode}_iqm": score.iqm,
            f"eval/{mode}_length": score.length,
            f"eval/{mode}_episodes": float(score.n),
            f"eval/{mode}_truncated": score.truncated / max(score.n, 1),
        }
    return values


class EvaluationWarmup:
    """Periodic evaluation begins at once, or when the mean training return first reaches `from_return`."""

    def __init__(self, from_return: float | None) -> None:
        self._from_return = from_return
        self._over = False

    def is_over(self, row: Mapping[str, float]) -> bool:
        """Called when an evaluation is due; once True it stays True."""
        self._over = self._over or self._from_return is None or row["roll/return_mean"] >= self._from_return
        return self._over

    def state(self) -> dict[str, bool]:
        return {"begun": self._over}

    def restore(self, state: FeatureState) -> None:
        self._over = state["begun"]
