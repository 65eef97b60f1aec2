"""Update statistics: rewards, actions, observations, weights and network outputs of one update.

A few are measured in every update; `measure_update` adds the costly ones where the `HistogramSchedule` asks for them.
All is traced under a flag, so the compiled program is the same whether an update is measured or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces as gym

from gymlab.algorithms.base import ActorCriticAlgorithm, Algorithm, Metrics
from gymlab.algorithms.opt_metrics import parts_of
from gymlab.core.types import Array, Masked, Rollout, Space, Spaces, Tree
from gymlab.experience.advantages import fold
from gymlab.networks.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    Gaussian,
    MultiCategorical,
    to_env_action,
)
from gymlab.networks.flat_network import Params
from gymlab.networks.memory import carries_before
from gymlab.training.episodes import WINDOW, Episodes
from gymlab.training.update_histograms import (
    BINS,
    QUANTILES,
    SAMPLES,
    HistogramLayout,
    Named,
    histograms,
    quantiles,
    sample_places,
    sample_values,
)

# What algorithms measure that `metrics.statistics: basic` leaves out; not asked for, it is not computed.
_DETAILS = ("opt/grad_norm/", "opt/grad_norm_clipped", "opt/loss/", "opt/advantage_", "opt/target_")


def basic_metrics(metrics: Metrics) -> Metrics:
    """An algorithm's metrics without the details."""
    return {name: value for name, value in metrics.items() if not name.startswith(_DETAILS)}


def reward_statistics(rollout: Rollout, *, full: bool) -> Metrics:
    """Rewards as the env gave them and as learning sees them, and how many episodes ended how."""
    rewards = (rollout.reward, rollout.train_reward)
    size = rollout.reward.size
    summed = jnp.stack([*rewards, rollout.reward != 0, rollout.terminated, rollout.truncated]).reshape(5, -1)
    sums = summed.sum(1)  # one after the other would be a pass over the rollout for each, and a kernel to compile
    mean = sums[:3] / size
    found: Metrics = {"roll/reward_mean": mean[0], "roll/train_reward_mean": mean[1]}
    if full:
        std = jnp.sqrt(((summed[:2] - mean[:2, None]) ** 2).sum(1) / size)
        found |= {"roll/reward_nonzero": mean[2], "roll/reward_std": std[0], "roll/train_reward_std": std[1]}
        found |= {"roll/reward_min": rollout.reward.min(), "roll/reward_max": rollout.reward.max()}
    return found | {"roll/terminated": sums[3], "roll/truncated": sums[4]}


def action_statistics(space: Space, rollout: Rollout) -> Metrics:
    """Actions as the env received them."""
    sent = to_env_action(space, rollout.action).astype(jnp.float32)
    found = {"roll/action_mean": sent.mean(), "roll/action_std": sent.std()}
    if isinstance(space, gym.Box):
        shaped = rollout.action.reshape(*rollout.reward.shape, *space.shape)
        found["roll/action_clipped"] = jnp.mean((shaped < space.low) | (shaped > space.high))
    return found


def reward_parts(rollout: Rollout) -> Metrics:
    """The named parts of the reward: how large, which share of all, how often not 0."""
    if not rollout.components:
        return {}
    parts = jnp.stack([part.ravel() for part in rollout.components.values()])
    mean = parts.mean(1)
    size = jnp.abs(parts).mean(1)
    nonzero = (parts != 0).mean(1)
    share = jnp.where(size.sum() > 0, size / size.sum(), 0.0)
    statistics = {"mean": mean, "share": share, "nonzero": nonzero}
    return {
        f"env/reward_{word}/{name}": values[i]
        for word, values in statistics.items()
        for i, name in enumerate(rollout.components)
    }


MOST_COMPONENTS = 32  # of an action that have metrics of their own
MOST_CHOICES = 1024  # of a discrete action that are counted
MOST_SHARES = 32  # of them that have metrics of their own


def _choices(space: Space) -> list[int]:
    """How many choices each component of a discrete action has; [] for continuous ones."""
    if isinstance(space, gym.Discrete):
        return [int(space.n)]
    if isinstance(space, gym.MultiDiscrete):
        return [int(n) for n in space.nvec.ravel()]
    return [2] * int(np.prod(space.shape)) if isinstance(space, gym.MultiBinary) else []


def _sent(space: Space, action: Array) -> Array:
    """(T * N, components) as the env received them."""
    sent = to_env_action(space, action)
    return sent.reshape(action.shape[0] * action.shape[1], -1)


def action_components(space: Space, action: Array) -> list[Named]:
    """Mean and std of each of several components."""
    sent = _sent(space, action).astype(jnp.float32)
    if not 1 < sent.shape[1] <= MOST_COMPONENTS:
        return []
    places = range(sent.shape[1])
    return [
        (tuple(f"roll/action_mean/{i}" for i in places), sent.mean(0)),
        (tuple(f"roll/action_std/{i}" for i in places), sent.std(0)),
    ]


class ActionCounts(NamedTuple):
    """How often each discrete choice was taken, by component."""

    names: tuple[str, ...]  # of the histograms
    bins: tuple[int, ...]
    bars: Array  # low, high and counts of each, one after the other
    shares: list[Named]


def count_actions(space: Space, action: Array) -> ActionCounts | None:
    """All choices, counted exactly; None for continuous actions, or where there are too many choices."""
    counts = _choices(space)
    if not counts or sum(counts) > MOST_CHOICES:
        return None
    sent = _sent(space, action)
    starts = np.ravel(getattr(space, "start", 0)) * np.ones(len(counts), int)
    # One comparison for all components: which of its own choices each number is.
    component = np.repeat(np.arange(len(counts)), counts)
    choice = np.concatenate([start + np.arange(count) for count, start in zip(counts, starts, strict=True)])
    taken = jnp.sum(sent[:, component] == choice, 0).astype(jnp.float32)
    edges = [(float(start) - 0.5, float(start) + count - 0.5) for count, start in zip(counts, starts, strict=True)]
    parts = np.split(np.arange(len(choice)), np.cumsum(counts)[:-1])
    bars = [
        piece for edge, part in zip(edges, parts, strict=True) for piece in (np.array(edge, np.float32), taken[part])
    ]
    several = len(counts) > 1
    names = tuple(f"roll/actions/hist/{i}" if several else "roll/actions/hist" for i in range(len(counts)))
    labels = [f"{i}.{j}" if several else f"{j}" for i, count in enumerate(counts) for j in range(count)]
    share_names = tuple(f"roll/action_share/{label}" for label in labels)
    shares: list[tuple[tuple[str, ...], Array]] = []
    if len(labels) <= MOST_SHARES:
        shares.append((share_names, taken / len(sent)))
    return ActionCounts(names, tuple(counts), jnp.concatenate(bars), shares)


def action_samples(space: Space, action: Array) -> dict[str, Array]:
    """Samples of continuous actions, of each component where there are not too many."""
    sent = _sent(space, action)
    if not 1 < sent.shape[1] <= MOST_COMPONENTS:
        return {"roll/actions/hist": sample_values(sent)}
    return {f"roll/actions/hist/{i}": sample_values(sent[:, i]) for i in range(sent.shape[1])}


MOST_FEATURES = 64  # that have metrics of their own
_COMPARED = 64  # envs, with each other
_CHUNKS = 1024


def observation_features(space: Space, obs: Tree, name: str = "") -> tuple[Array, list[str]]:
    """Observations as (S, features) numbers, and what each feature is called (`3`, `key.0`)."""
    prefix = f"{name}." if name else ""
    if isinstance(space, gym.Dict | gym.Tuple):
        parts = space.spaces.items() if isinstance(space, gym.Dict) else enumerate(space.spaces)
        found = [observation_features(part, obs[key], f"{prefix}{key}") for key, part in parts]
        return jnp.concatenate([values for values, _ in found], 1), [one for _, names in found for one in names]
    flat = obs.reshape(len(obs), -1).astype(jnp.float32)
    if isinstance(space, gym.Discrete):
        return flat, [name or "0"]
    return flat, [f"{prefix}{place}" for place in range(flat.shape[1])]


def observation_statistics(flat: Array, names: list[str]) -> list[Named]:
    """Mean, std, lowest and highest over all features, and of each where there are not too many."""
    mean = flat.mean(0)
    low = flat.min(0)
    high = flat.max(0)
    variance = ((flat - mean) ** 2).mean(0)
    whole = mean.mean()
    spread = jnp.sqrt((variance + (mean - whole) ** 2).mean())
    found: list[Named] = [
        (
            ("env/obs_mean", "env/obs_std", "env/obs_min", "env/obs_max"),
            jnp.stack([whole, spread, low.min(), high.max()]),
        )
    ]
    if 1 < len(names) <= MOST_FEATURES:
        statistics = (("mean", mean), ("std", jnp.sqrt(variance)), ("min", low), ("max", high))
        found += [(tuple(f"env/obs_{word}/{name}" for name in names), values) for word, values in statistics]
    return found


def identical_observations(obs: Tree) -> list[Named]:
    """Share of envs whose observation (N, *obs) is another's too; large ones are compared by the sums of chunks."""
    leaves = [leaf[:_COMPARED].reshape(min(len(leaf), _COMPARED), -1) for leaf in jax.tree.leaves(obs)]
    if len(leaves[0]) < 2:
        return []
    rows = []
    for leaf in leaves:
        chunk = -(-leaf.shape[1] // _CHUNKS)
        padded = jnp.pad(leaf.astype(jnp.float32), ((0, 0), (0, -leaf.shape[1] % chunk)))
        rows.append(padded.reshape(len(leaf), -1, chunk).sum(-1))
    values = jnp.concatenate(rows, 1)
    same = (values[:, None] == values[None]).all(-1) & ~jnp.eye(len(values), dtype=bool)
    return [(("env/identical",), same.any(1).mean()[None])]


def weight_norms(old: Params, new: Params) -> list[Named]:
    """Norms of the weights and of their change, whole and by part."""
    sizes = [sum(new[name].size for name in names) for names in parts_of(new).values()]
    after = _vector(new)
    squares = jnp.stack([after, after - _vector(old)]) ** 2  # many small sums cost more than the copy
    ends = np.cumsum(sizes)
    sums = jnp.stack([squares[:, end - size : end].sum(1) for size, end in zip(sizes, ends, strict=True)], 1)
    norms = jnp.sqrt(jnp.concatenate([sums.sum(1, keepdims=True), sums], 1))
    kinds = ("opt/param_norm", "opt/update_norm")
    names = tuple(f"{kind}{part}" for kind in kinds for part in ("", *(f"/{part}" for part in parts_of(new))))
    return [(names, norms.ravel())]


def weight_samples(old: Params, new: Params) -> dict[str, Array]:
    """Some weights of each part and their change, by the names of their histograms; small parts are left out."""
    found: dict[str, Array] = {}
    for part, names in parts_of(new).items():
        after, before = (jnp.concatenate([params[name].ravel() for name in names]) for params in (new, old))
        places = sample_places(after.size)
        if after.size >= BINS:
            after, before = (after, before) if places is None else (after[places], before[places])
            found |= {f"opt/param_hist/{part}": after, f"opt/update_hist/{part}": after - before}
    return found


def _vector(params: Params) -> Array:
    """All weights, part by part."""
    return jnp.concatenate([params[name].ravel() for names in parts_of(params).values() for name in names])


_MOST_NUMBERS = 2**22  # of observations measured: some 150 images
_SATURATED = 0.97  # of tanh: its slope has fallen below 6 %


class MeasuredUpdate(NamedTuple):
    """An update to measure."""

    rollout: Rollout  # raw
    normalize: Callable[[Tree], Tree]  # raw observations -> as the network sees them
    before: Tree  # the algorithm's state
    after: Tree
    episodes: Episodes  # after the rollout
    weights: bool = True  # whether to measure the weights too, which all env groups share


OF_WEIGHTS = ("opt/param_", "opt/update_")  # metrics of the weights


def measure_update(spaces: Spaces, algorithm: Algorithm, subject: MeasuredUpdate) -> tuple[Array, HistogramLayout]:
    """All statistics and histograms of an update in one vector, and its layout."""
    rollout = subject.rollout
    obs = _sampled(rollout, rollout.obs)
    flat, names = observation_features(spaces.observation, _plain(obs))
    values = [*observation_statistics(flat, names), *identical_observations(_plain(rollout.last_obs))]
    values += action_components(spaces.action, rollout.action)
    vectors = {
        "roll/return_hist": subject.episodes.returns,
        "roll/length_hist": subject.episodes.lengths,
        "roll/reward_hist": sample_values(rollout.reward),
        "env/obs_hist": sample_values(flat),
    }
    choices = count_actions(spaces.action, rollout.action)
    if choices is None:
        vectors |= action_samples(spaces.action, rollout.action)
    if isinstance(algorithm, ActorCriticAlgorithm):
        outputs, found = _outputs(algorithm, subject, obs)
        weights = algorithm.weights(subject.before), algorithm.weights(subject.after)
        vectors |= outputs | (weight_samples(*weights) if subject.weights else {})
        values += [*found, *(weight_norms(*weights) if subject.weights else [])]
    held = jnp.arange(WINDOW) < jnp.minimum(subject.episodes.finished, WINDOW)
    packed = [histograms(list(vectors.values()), {0: held, 1: held}).ravel()]
    bins = [(name, BINS) for name in vectors]
    if choices is not None:
        values += choices.shares
        packed.append(choices.bars)
        bins += zip(choices.names, choices.bins, strict=True)
    layout = HistogramLayout(tuple(name for names, _ in values for name in names), tuple(bins))
    return jnp.concatenate([*(numbers for _, numbers in values), *packed]).astype(jnp.float32), layout


def _sampled(rollout: Rollout, of_steps: Tree) -> Tree:
    """Of arrays (T, N, ...) those of the steps that are looked at, folded to one axis."""
    steps, envs = rollout.reward.shape
    one = sum(leaf[0, 0].size for leaf in jax.tree.leaves(rollout.obs))
    places = sample_places(steps * envs, max(64, min(SAMPLES, _MOST_NUMBERS // max(one, 1))))
    folded = jax.tree.map(fold, of_steps)
    return folded if places is None else jax.tree.map(lambda x: x[places], folded)


def _sampled_carries(algorithm: ActorCriticAlgorithm, subject: MeasuredUpdate) -> Tree:
    """The memory with which the policy comes to the steps that are looked at."""
    if not algorithm.has_memory:
        return ()
    rollout = subject.rollout._replace(obs=subject.normalize(subject.rollout.obs))
    carries = algorithm.replay(algorithm.weights(subject.after), rollout).carries
    initial = algorithm.initial_carry(rollout.reward.shape[1])
    return _sampled(rollout, carries_before(rollout, carries, initial))


def _plain(obs: Tree) -> Tree:
    return obs.obs if isinstance(obs, Masked) else obs


def _outputs(
    algorithm: ActorCriticAlgorithm, subject: MeasuredUpdate, obs: Tree
) -> tuple[dict[str, Array], list[Named]]:
    """The network's outputs for the rollout's observations, after the update."""
    weights = algorithm.weights(subject.after)
    forward = algorithm.look(weights, subject.normalize(obs), _sampled_carries(algorithm, subject))
    vectors = {"opt/logits": sample_values(forward.outputs), "opt/values": sample_values(forward.values)}
    values = unit_activity(forward.layers, algorithm.policy_settings.activation)
    likeliest = max_prob(forward.distribution)
    if likeliest is not None:
        values.append((("opt/max_prob",), likeliest.mean()[None]))
        vectors["opt/max_prob"] = sample_values(likeliest)
    if isinstance(forward.distribution, Gaussian):
        std = jnp.exp(jnp.broadcast_to(forward.distribution.log_std, forward.outputs.shape)).mean(0)
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


def unit_activity(layers: dict[str, Array], activation: str) -> list[Named]:
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
