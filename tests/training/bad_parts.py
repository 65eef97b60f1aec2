"""A wrapper, a transform and algorithms in which numbers go bad, as a user's own file: the tests copy it."""

from typing import Literal

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from gymlab.algorithms.a2c import A2CAlgorithm, A2CSettings
from gymlab.algorithms.settings import Positive
from gymlab.core.arrays import namespace
from gymlab.core.schedules import constant

KINDS = ("nan", "inf", "huge")


class Spoil:
    """The observation or the reward of env 2 is bad, or just huge, in some vec steps."""

    random = False

    def __init__(self, obs=(0, 0), reward=(0, 0), kind="nan"):
        self.spans, self.kind = (obs, reward), kind

    def space(self, space):
        return space

    def init(self, n):
        # Which steps, as numbers in the state: all runs of these tests share their compiled programs.
        mine = np.arange(n) == 2
        spans = [[np.where(mine, np.int32(end), 0) for end in span] for span in self.spans]
        return {"t": np.zeros(n, np.int32), "spans": spans, "kind": np.full(n, KINDS.index(self.kind))}

    def apply(self, state, step, key):
        xp, t = namespace(step.reward), state["t"]
        value = xp.asarray([np.nan, np.inf, 3e38], np.float32)[state["kind"]]
        obs_now, reward_now = ((first <= t) & (t < last) for first, last in state["spans"])
        obs, successor = (xp.where(obs_now[:, None], value[:, None], x) for x in (step.obs, step.successor))
        reward, train_reward = (xp.where(reward_now, value, x) for x in (step.reward, step.train_reward))
        step = step._replace(obs=obs, successor=successor, reward=reward, train_reward=train_reward)
        return {**state, "t": t + 1}, step


class NanAt(gymnasium.Wrapper):
    """Shows NaN after so many steps of an episode."""

    def __init__(self, env, k):
        super().__init__(env)
        self.k = k

    def reset(self, **options):
        self.steps = 0
        return self.env.reset(**options)

    def step(self, action):
        self.steps += 1
        obs, *rest = self.env.step(action)
        return (obs * np.nan if self.steps == self.k else obs, *rest)


class ActSettings(A2CSettings):
    place: Literal["none", "action", "logits"] = "none"
    """What is bad in env 1 where the last number of its observation is beyond 0.1."""


class BadActs(A2CAlgorithm):
    Settings = ActSettings

    def act(self, weights, obs, carry, key, greedy=False):
        decision = super().act(weights, obs, carry, key, greedy)
        bad = (jnp.abs(obs[:, -1]) > 0.1) & (jnp.arange(len(obs)) == 1)
        if self.settings.place == "action":
            return decision._replace(action=jnp.where(bad[:, None], jnp.nan, decision.action))
        if self.settings.place == "logits":
            return decision._replace(log_prob=jnp.where(bad, jnp.nan, decision.log_prob))
        return decision


@jax.custom_vjp
def steep(weight, bad):
    return 0.0


steep.defvjp(lambda weight, bad: (0.0, (weight, bad)), lambda kept, g: (jnp.where(kept[1], jnp.nan, 0 * kept[0]), None))


class LearnSettings(A2CSettings):
    place: Positive = constant(0.0)
    """0 nothing, 1 the loss, 2 a gradient, 3 a parameter goes bad once `health` is below a half."""
    health: Positive = constant(1.0)


class BadLearns(A2CAlgorithm):
    Settings = LearnSettings

    def loss(self, params, batch, hp):
        loss, metrics = super().loss(params, batch, hp)
        loss = jnp.where((hp["place"] == 1) & (hp["health"] < 0.5), jnp.inf, loss)
        loss += steep(params["policy_head.weight"], (hp["place"] == 2) & (hp["health"] < 0.5))
        return loss, metrics | {"opt/loss": loss}

    def update(self, state, rollouts, hp, key):
        state, metrics = super().update(state, rollouts, hp, key)
        bad = (hp["place"] == 3) & (hp["health"] < 0.5)
        bias = jnp.where(bad, jnp.inf, state.params["value_head.bias"])
        return state._replace(params=state.params | {"value_head.bias": bias}), metrics
