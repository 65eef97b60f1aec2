"""A toy algorithm that uses all of the protocol of learning: memory, two reward streams, two tasks, a small replay."""

from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp

from gymlab.algorithms.base import ActorCriticAlgorithm, LearnerState, ReplayPlan
from gymlab.algorithms.settings import AlgorithmSettings, Share
from gymlab.core.arrays import reset_carry
from gymlab.core.schedules import constant
from gymlab.core.types import Decision, Replayed, Rollout
from gymlab.experience.advantages import state_values
from gymlab.experience.reward_streams import RewardStream, intrinsic_metrics, joined_advantages, stream_gae
from gymlab.networks.actor_critic import NetworkTrace
from gymlab.networks.distributions import action_distribution
from gymlab.networks.memory import scan_memory

UNITS = 4


class ToySettings(AlgorithmSettings):
    intrinsic_gamma: Share = constant(0.5)
    learning_starts: int = 20


class ToyAlgorithm(ActorCriticAlgorithm):
    """A2C from sequences of replay, each begun with the memory it was recorded with; a bonus for being off centre."""

    Settings = ToySettings
    learns_from: ClassVar = "replay"
    has_memory = True

    def __init__(self, settings, policy, spaces):
        self.settings, self.policy_settings, self.spaces = settings, policy, spaces
        self.tasks = int(spaces.observation["task"].n)

    def replay_plan(self):
        return ReplayPlan(capacity=14, minibatches=2, sequences=5, length=3)

    def init(self, key, n_envs):
        shapes = {
            "cell.input": (self.spaces.observation["obs"].shape[0] + self.tasks, UNITS),
            "cell.carry": (UNITS, UNITS),
            "policy_head.weight": (UNITS, int(self.spaces.action.n)),
            "value_head.weight": (UNITS, 2),
        }
        keys = jax.random.split(key, len(shapes))
        params = {
            name: 0.5 * jax.random.normal(k, shape) for k, (name, shape) in zip(keys, shapes.items(), strict=True)
        }
        return LearnerState(params, (), {"bonus_seen": jnp.float32(0), "rollouts": jnp.int32(0)})

    def is_learning(self, hp):
        return hp["env_steps"] >= self.settings.learning_starts

    def warm_up(self, state, rollouts, hp, key):
        return state._replace(buffers=self._counted(state.buffers, [bonus(rollout) for rollout in rollouts]))

    def initial_carry(self, n_envs):
        return {"memory": jnp.zeros((n_envs, UNITS))}

    def _inputs(self, params, obs):
        """Outside the scan: the part of a step that does not depend on memory."""
        seen = jnp.concatenate([obs["obs"], jax.nn.one_hot(obs["task"], self.tasks)], -1)
        return seen @ params["cell.input"]

    def _cell(self, params, inputs, carry):
        memory = jnp.tanh(inputs + carry["memory"] @ params["cell.carry"])
        return memory, {"memory": memory}

    def _heads(self, params, memory):
        logits = memory @ params["policy_head.weight"]
        return logits, action_distribution(self.spaces.action, logits, None, None), memory @ params["value_head.weight"]

    def act(self, weights, obs, carry, key, greedy=False):
        memory, after = self._cell(weights, self._inputs(weights, obs), carry)
        chosen = self._heads(weights, memory)[1]
        action = jnp.where(greedy, chosen.mode(), chosen.sample(key))
        return Decision(action, chosen.log_prob(action), after, {"memory": carry["memory"]})

    def replay(self, weights, steps):
        initial = self.initial_carry(steps.fresh.shape[1])
        memory, carries = scan_memory(partial(self._cell, weights), self._inputs(weights, steps.obs), steps, initial)
        return Replayed(*self._heads(weights, memory)[1:], carries)

    def value(self, weights, obs, carry, fresh=None):
        if fresh is not None:
            carry = reset_carry(carry, fresh, self.initial_carry(len(fresh)))
        return self._heads(weights, self._cell(weights, self._inputs(weights, obs), carry)[0])[2]

    def look(self, weights, obs, carry):
        memory, _ = self._cell(weights, self._inputs(weights, obs), carry)
        logits, chosen, values = self._heads(weights, memory)
        return NetworkTrace(logits, chosen, values[..., 0], {"cell": memory})

    def streams(self, hp):
        return (
            RewardStream(hp["gamma"], 0.9),
            RewardStream(hp["intrinsic_gamma"], 0.9, coefficient=0.5, episodic=False),
        )

    def update(self, state, experience, hp, key):
        params = state.params
        losses, bonuses = [], []
        for i in range(self.replay_plan().minibatches):
            parts = [begun_as_recorded(jax.tree.map(lambda x, i=i: x[i], drawn)) for drawn in experience]
            bonuses += [bonus(part) for part in parts]
            loss, grads = jax.value_and_grad(self.loss)(params, parts, hp)
            params = jax.tree.map(lambda p, g: p - hp["learning_rate"] * g, params, grads)
            losses.append(loss)
        metrics = {"opt/loss": jnp.stack(losses).mean(), "opt/gradient_steps": jnp.int32(len(losses))}
        metrics |= intrinsic_metrics(jnp.stack([x.mean() for x in bonuses]))
        metrics |= {f"toy/{name}": hp[name].astype(jnp.float32) for name in ("update", "env_steps", "gradient_steps")}
        metrics["toy/progress"] = hp["progress"]
        metrics["toy/gradient_steps"] += len(losses)
        return state._replace(params=params, buffers=self._counted(state.buffers, bonuses)), metrics

    def loss(self, params, parts, hp):
        total = 0.0
        for part in parts:
            values = state_values(partial(self.replay, params), partial(self.value, params), part)
            rewards = jnp.stack([part.train_reward, bonus(part)], -1)
            frozen = jax.lax.stop_gradient(stream_gae(rewards, values, part, self.streams(hp)))
            targets = frozen + jax.lax.stop_gradient(values.values)
            chosen = self.replay(params, part).distribution
            gain = joined_advantages(frozen, self.streams(hp)) * chosen.log_prob(part.action)
            total += jnp.mean((values.values - targets) ** 2) - jnp.mean(gain)
        return total

    def _counted(self, buffers, bonuses):
        mean = jnp.stack([x.mean() for x in bonuses]).mean()
        return {"bonus_seen": buffers["bonus_seen"] + mean, "rollouts": buffers["rollouts"] + 1}


def bonus(rollout: Rollout):
    """(T, N), of the state an action led to."""
    return jnp.abs(rollout.successor["obs"]).sum(-1)


def begun_as_recorded(part: Rollout) -> Rollout:
    """A sequence of replay with the carry that it was recorded with."""
    return part._replace(carry={"memory": part.extras["memory"][0]})
