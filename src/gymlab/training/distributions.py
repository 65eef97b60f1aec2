"""What is taken only now and then, because it costs more: distributions of what went in, came out and was learnt.

Traced under a flag: the program is the same whether an update looks or not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gymlab.algorithms.base import ActorCriticAlgorithm, Algorithm
from gymlab.algorithms.rollout_batch import fold
from gymlab.core.types import Array, Histogram, Masked, Rollout, Spaces, Tree
from gymlab.networks.distributions import Bernoulli, Categorical, Distribution, Gaussian, MultiCategorical
from gymlab.training.actions import MOST_COMPONENTS, action_vectors, by_component, choices_taken
from gymlab.training.episodes import WINDOW, Episodes
from gymlab.training.observations import features, identical, observation_statistics
from gymlab.training.samples import BINS, QUANTILES, SAMPLES, Named, chosen, histograms, quantiles, sampled
from gymlab.training.weights import weight_norms, weight_samples

_MOST_NUMBERS = 2**22  # of observations looked at: some 150 pictures
_SATURATED = 0.97  # of tanh: its slope has fallen below 6 %


class Layout(NamedTuple):
    """What stands where in a packed look."""

    values: tuple[str, ...] = ()
    histograms: tuple[tuple[str, int], ...] = ()  # name, bins

    def unpack(self, packed: np.ndarray) -> tuple[dict[str, float], dict[str, Histogram]]:
        """Numbers and histograms by name; a histogram of nothing is left out."""
        numbers = packed.tolist()
        values = dict(zip(self.values, numbers, strict=False))
        at = len(self.values)
        found = {}
        for name, bins in self.histograms:
            low, high, *counts = numbers[at : at + 2 + bins]
            if any(counts):
                found[name] = Histogram(low, high, tuple(map(int, counts)))
            at += 2 + bins
        return values, found


class Subject(NamedTuple):
    """What is looked at: an update."""

    rollout: Rollout  # raw
    seen: Any  # raw observations -> as the network sees them
    before: Tree  # the algorithm's state
    after: Tree
    episodes: Episodes  # after the rollout


def take(spaces: Spaces, algorithm: Algorithm, subject: Subject) -> tuple[Array, Layout]:
    """All distributions of an update in one vector, and what stands where."""
    rollout = subject.rollout
    obs = _sampled_obs(rollout)
    flat, names = features(spaces.observation, _plain(obs))
    values = [*observation_statistics(flat, names), *identical(_plain(rollout.last_obs))]
    values += by_component(spaces.action, rollout.action)
    vectors = {
        "roll/return_hist": subject.episodes.returns,
        "roll/length_hist": subject.episodes.lengths,
        "roll/reward_hist": sampled(rollout.reward),
        "env/obs_hist": sampled(flat),
    }
    choices = choices_taken(spaces.action, rollout.action)
    if choices is None:
        vectors |= action_vectors(spaces.action, rollout.action)
    if isinstance(algorithm, ActorCriticAlgorithm):
        outputs, found = _outputs(algorithm, subject, obs)
        weights = algorithm.weights(subject.before), algorithm.weights(subject.after)
        vectors |= outputs | weight_samples(*weights)
        values += [*found, *weight_norms(*weights)]
    held = jnp.arange(WINDOW) < jnp.minimum(subject.episodes.finished, WINDOW)
    packed = [histograms(list(vectors.values()), {0: held, 1: held}).ravel()]
    bins = [(name, BINS) for name in vectors]
    if choices is not None:
        values += choices.shares
        packed.append(choices.bars)
        bins += zip(choices.names, choices.bins, strict=True)
    layout = Layout(tuple(name for names, _ in values for name in names), tuple(bins))
    return jnp.concatenate([*(numbers for _, numbers in values), *packed]).astype(jnp.float32), layout


def _sampled_obs(rollout: Rollout) -> Tree:
    """Some of the rollout's observations, folded to one axis."""
    steps, envs = rollout.reward.shape
    one = sum(leaf[0, 0].size for leaf in jax.tree.leaves(rollout.obs))
    places = chosen(steps * envs, max(64, min(SAMPLES, _MOST_NUMBERS // max(one, 1))))
    folded = jax.tree.map(fold, rollout.obs)
    return folded if places is None else jax.tree.map(lambda x: x[places], folded)


def _plain(obs: Tree) -> Tree:
    return obs.obs if isinstance(obs, Masked) else obs


def _outputs(algorithm: ActorCriticAlgorithm, subject: Subject, obs: Tree) -> tuple[dict[str, Array], list[Named]]:
    """What the network makes of the rollout's observations after the update."""
    look = algorithm.network(algorithm.weights(subject.after)).look(subject.seen(obs))
    vectors = {"opt/logits": sampled(look.outputs), "opt/values": sampled(look.values)}
    values = units(look.layers, algorithm.policy_settings.activation)
    likeliest = max_prob(look.distribution)
    if likeliest is not None:
        values.append((("opt/max_prob",), likeliest.mean()[None]))
        vectors["opt/max_prob"] = sampled(likeliest)
    if isinstance(look.distribution, Gaussian):
        std = jnp.exp(jnp.broadcast_to(look.distribution.log_std, look.outputs.shape)).mean(0)
        values.append((("opt/policy_std",), std.mean()[None]))
        if 1 < len(std) <= MOST_COMPONENTS:
            values.append((tuple(f"opt/policy_std/{i}" for i in range(len(std))), std))
    names = tuple(f"{name}/{word}" for name in vectors for word in QUANTILES)
    values.append((names, quantiles(list(vectors.values())).ravel()))
    return {f"{name}_hist": vector for name, vector in vectors.items()}, values


def max_prob(distribution: Distribution) -> Array | None:
    """Probability of the likeliest action; None where actions are continuous."""
    if isinstance(distribution, Categorical):
        return jnp.exp(distribution.log_p.max(-1))
    if isinstance(distribution, MultiCategorical):
        return jnp.exp(sum(part.log_p.max(-1) for part in distribution.parts))
    if isinstance(distribution, Bernoulli):
        return jnp.exp(-jax.nn.softplus(-jnp.abs(distribution.logits)).sum(-1))
    return None


def units(layers: dict[str, Array], activation: str) -> list[Named]:
    """Share of units that never fire (ReLU) and of activations at the flat ends (tanh), by layer and of all."""
    found: list[Named] = []
    # The layers of an encoder that shows them are ReLUs, whatever the trunk's are.
    kinds = {layer: "relu" if ".encoder." in layer else activation for layer in layers}
    for kind, name, of in (("relu", "opt/dead_units", _dead), ("tanh", "opt/saturated_units", _saturated)):
        shown = {layer: values for layer, values in layers.items() if kinds[layer] == kind}
        if shown:
            shares = jnp.stack([of(values) for values in shown.values()])
            sizes = np.array([values.shape[-1] for values in shown.values()], np.float32)
            whole = (shares * sizes).sum() / sizes.sum()
            found.append(((name, *(f"{name}/{layer}" for layer in shown)), jnp.concatenate([whole[None], shares])))
    return found


def _dead(values: Array) -> Array:
    return (values.reshape(-1, values.shape[-1]).max(0) <= 0).mean()


def _saturated(values: Array) -> Array:
    return (jnp.abs(values) > _SATURATED).mean()
