"""What an update did (`opt/`). Scalars are means over the gradient steps that were taken; distributions are taken on
the rollout, with the weights after the update, every few updates.
"""

from __future__ import annotations

from gymlab.metrics.metric import POSITIVE, SHARE, UNBOUNDED, Limits, Metric

_PARTS = "policy_trunk, policy_head, value_trunk, value_head or log_std"
_QUANTILES = {
    "min": "Lowest",
    "p05": "5 % quantile",
    "p25": "25 % quantile",
    "p50": "Median",
    "p75": "75 % quantile",
    "p95": "95 % quantile",
    "max": "Highest",
}


def _quantiles(
    of: str, about: str, unit: str, priority: int, healthy: str, bounds: Limits = UNBOUNDED
) -> tuple[Metric, ...]:
    return (
        *(
            Metric(
                f"opt/{of}/{name}",
                f"{word} of {about}.",
                unit,
                ".4g",
                priority + i,
                bounds,
                healthy=healthy,
                sparse=True,
            )
            for i, (name, word) in enumerate(_QUANTILES.items())
        ),
        Metric(
            f"opt/{of}_hist",
            f"{about[0].upper()}{about[1:]}, by size.",
            unit,
            ".4g",
            priority + 7,
            bounds,
            healthy=healthy,
            histogram=True,
        ),
    )


METRICS = (
    # Losses.
    Metric("opt/loss", "What is minimised: policy_loss + value_coef × value_loss − entropy_coef × entropy.", "loss",
           ".4g", 20, UNBOUNDED, healthy="Its level says nothing about skill; a jump by orders of magnitude says that "
           "learning is unstable.", settings=("learning_rate", "value_coef", "entropy_coef")),
    Metric("opt/policy_loss", "The policy's part of the loss, before coefficients.", "loss", ".3g", 7, UNBOUNDED,
           healthy="Small and noisy around 0. It does not fall as the agent gets better.",
           settings=("learning_rate", "clip_range", "normalize_advantage")),
    Metric("opt/value_loss", "Mean squared error of the value predictions, before coefficients.", "return²", ".4g", 6,
           POSITIVE, "down", healthy="Rises when the agent first finds reward, then falls. Growing without end: the "
           "value net cannot follow; lower learning_rate or normalise rewards.",
           settings=("learning_rate", "value_coef", "normalize.reward", "gamma")),
    Metric("opt/entropy", "Mean entropy of the policy's action distribution.", "nats", ".4f", 1, "entropy",
           healthy="Starts at its maximum for discrete actions and falls slowly. Near 0 long before the return is "
           "good: collapsed, raise entropy_coef. Stuck at the maximum: nothing is learnt.",
           settings=("entropy_coef", "learning_rate", "log_std_init")),
    Metric("opt/loss/policy_scaled", "The policy's share in opt/loss; the three `_scaled` parts add up to it.", "loss",
           ".4g", 31, UNBOUNDED, settings=("learning_rate",)),
    Metric("opt/loss/value_scaled", "value_coef × value_loss: the value's share in opt/loss.", "loss", ".4g", 32,
           POSITIVE, healthy="Orders of magnitude above the policy's with a shared trunk: the value drowns the policy; "
           "lower value_coef or normalise rewards.", settings=("value_coef", "normalize.reward")),
    Metric("opt/loss/entropy_scaled", "−entropy_coef × entropy: the entropy bonus as it stands in opt/loss.", "loss",
           ".4g", 33, UNBOUNDED, healthy="Larger in size than the policy's part: the bonus outweighs the task.",
           settings=("entropy_coef",)),
    # How far the policy moved.
    Metric("opt/kl", "KL(old policy ‖ new policy) over the batch, exact: how far the update moved the policy.", "nats",
           ".3g", 3, POSITIVE, healthy="0.001 to 0.02. Higher: steps are too large. 0: nothing moves.",
           settings=("learning_rate", "epochs", "target_kl")),
    Metric("opt/approx_kl", "KL(old policy ‖ new policy), estimated from the actions taken (Schulman's estimator, "
           "never negative): how far the update moved the policy.", "nats", ".3g", 2, POSITIVE, healthy="0.001 to 0.02 "
           "for PPO. Above 0.05 again and again: lower learning_rate or epochs, or set target_kl.",
           settings=("learning_rate", "epochs", "clip_range", "target_kl")),
    Metric("opt/clip_fraction", "PPO: share of samples whose probability ratio left the clip range.", "share", ".3f", 4,
           SHARE, healthy="0.02 to 0.3. Higher: most of the gradient is cut away; lower learning_rate or epochs.",
           settings=("clip_range", "learning_rate", "epochs")),
    Metric("opt/kl_stop", "PPO: 1 where target_kl ended this update early.", "0 or 1", ".0f", 40, SHARE,
           settings=("target_kl",)),
    Metric("opt/kl_stop_count", "PPO: updates that target_kl has ended early so far.", "updates", ".0f", 41, POSITIVE,
           monotonic=True, settings=("target_kl",), over_run=("sum", "opt/kl_stop")),
    Metric("opt/kl_stop_fraction", "PPO: share of all updates so far that target_kl ended early.", "share", ".3f", 42,
           SHARE, healthy="Now and then is what it is for. Above a half: the learning rate is too high for the target.",
           settings=("target_kl", "learning_rate"), over_run=("mean", "opt/kl_stop")),
    Metric("opt/gradient_steps", "Gradient steps taken in this update.", "steps", ".0f", 43, "gradient_steps",
           healthy="Constant unless target_kl stops updates early. 0: there was nothing to learn from.",
           settings=("epochs", "batch_size", "target_kl")),
    # Value, advantages and targets.
    Metric("opt/explained_variance", "1 − Var[target − value] / Var[target]: how much of the returns' variation the "
           "value net foresees. NaN where the targets do not vary.", "share", ".3f", 5, (float("-inf"), 1.0), "up",
           healthy="Rises towards 0.5 to 1. About 0: no better than a constant. Below 0 for long: worse than one.",
           settings=("gamma", "gae_lambda", "value_coef", "learning_rate")),
    Metric("opt/advantage_mean", "Mean advantage of the rollout, before it is normalised.", "return", ".4g", 44,
           UNBOUNDED, healthy="Around 0 once the value net is fair."),
    Metric("opt/advantage_std", "Standard deviation of the rollout's advantages, before they are normalised.", "return",
           ".4g", 45, POSITIVE, healthy="Far above 1 without normalize_advantage: gradients scale with it. Near 0: all "
           "actions look alike.", settings=("normalize_advantage", "normalize.reward", "gae_lambda")),
    Metric("opt/target_mean", "Mean of what the value net is fitted to.", "return", ".4g", 46, UNBOUNDED),
    Metric("opt/target_std", "Standard deviation of what the value net is fitted to.", "return", ".4g", 47, POSITIVE,
           settings=("normalize.reward",)),
    # Gradients and weights.
    Metric("opt/grad_norm", "Norm of the whole gradient before it is clipped.", "norm", ".4g", 8, POSITIVE,
           healthy="Steady within a factor of ten. Spikes of a hundred times the usual: bad batches, or too high a "
           "rate. Always far above max_grad_norm: every step has the same length.",
           settings=("learning_rate", "max_grad_norm", "normalize.reward")),
    Metric("opt/grad_norm_clipped", "Norm of the whole gradient after it is clipped.", "norm", ".4g", 48,
           "clipped_gradient", settings=("max_grad_norm",)),
    Metric("opt/grad_norm/*", f"Norm of one part's gradient before clipping: {_PARTS}.", "norm", ".4g", 65, POSITIVE,
           healthy="Parts within two orders of magnitude of each other. One at 0: that part does not learn.",
           settings=("value_coef", "max_grad_norm")),
    Metric("opt/grad_norm_clipped/*", "Norm of one part's gradient after clipping.", "norm", ".4g", 66,
           "clipped_gradient", settings=("max_grad_norm",)),
    Metric("opt/param_norm", "Norm of all weights after the update.", "norm", ".4g", 49, POSITIVE,
           healthy="Grows slowly. Doubling within a few updates: unstable.", settings=("learning_rate",), sparse=True),
    Metric("opt/param_norm/*", f"Norm of one part's weights: {_PARTS}.", "norm", ".4g", 67, POSITIVE, sparse=True),
    Metric("opt/update_norm", "Norm of the change of all weights in this update.", "norm", ".4g", 50, POSITIVE,
           healthy="About a thousandth of opt/param_norm per gradient step.", settings=("learning_rate", "epochs"),
           sparse=True),
    Metric("opt/update_norm/*", f"Norm of the change of one part's weights: {_PARTS}.", "norm", ".4g", 68, POSITIVE,
           settings=("learning_rate",), sparse=True),
    Metric("opt/param_hist/*", f"Weights of one part after the update, by size: {_PARTS}.", "weight", ".4g", 86,
           UNBOUNDED, histogram=True, healthy="A hill around 0 that widens slowly."),
    Metric("opt/update_hist/*", f"What the update changed in the weights of one part, by size: {_PARTS}.", "weight",
           ".4g", 87, UNBOUNDED, histogram=True, healthy="A hill around 0. All in one bin: the part does not learn.",
           settings=("learning_rate",)),
    # Outputs of the networks.
    Metric("opt/dead_units", "Share of all hidden units that gave 0 for every sample of the rollout (ReLU only).",
           "share", ".3f", 51, SHARE, "down", healthy="Below 0.2. Rising towards 1: the network is dying; lower "
           "learning_rate, or use tanh or leaky_relu.", settings=("activation", "learning_rate"), sparse=True),
    Metric("opt/dead_units/*", "Share of one layer's units that gave 0 for every sample; the layer is named as in "
           "`policy_trunk.0`.", "share", ".3f", 69, SHARE, "down", settings=("activation", "learning_rate"),
           sparse=True),
    Metric("opt/saturated_units", "Share of all activations that lie beyond ±0.97 (tanh only): hardly any gradient "
           "passes them.", "share", ".3f", 54, SHARE, "down", healthy="Below 0.3. Rising towards 1: weights are too "
           "large; lower learning_rate or normalise observations.", sparse=True,
           settings=("learning_rate", "normalize.obs", "activation")),
    Metric("opt/saturated_units/*", "Share of one layer's activations that lie beyond ±0.97.", "share", ".3f", 55,
           SHARE, "down", settings=("learning_rate", "normalize.obs", "activation"), sparse=True),
    Metric("opt/max_prob", "Mean over samples of the likeliest discrete action's probability.", "share", ".3f", 52,
           "max_prob", healthy="Starts at 1/n for n actions and rises with the return. 1 early: collapsed.",
           settings=("entropy_coef",), sparse=True),
    Metric("opt/policy_std", "Mean standard deviation of Gaussian actions.", "action", ".4f", 53, POSITIVE,
           healthy="Falls slowly from its first value. Growing without end: the entropy bonus wins over the task.",
           settings=("log_std_init", "entropy_coef"), sparse=True),
    Metric("opt/policy_std/*", "Standard deviation of one component of Gaussian actions.", "action", ".4f", 70,
           POSITIVE, sparse=True),
    *_quantiles("logits", "the policy head's outputs (logits, or means of Gaussian actions)", "logit", 71,
                "Spread grows with confidence. Hundreds: the softmax is saturated and gradients vanish."),
    *_quantiles("values", "the value predictions", "return", 90, "Within the returns that are possible."),
    *_quantiles("max_prob", "the likeliest discrete action's probability", "share", 100, "Near 1 in states that leave "
                "no choice, lower elsewhere. All of them near 1 early: collapsed.", SHARE),
)  # fmt: skip
