"""Two collectors, one algorithm: the same rollout from the same keys, and the same run however it is cut into calls."""

import hashlib

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.algorithms.base import Algorithm
from gymlab.algorithms.ppo import PPOAlgorithm
from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.clock import Clock
from gymlab.core.jax_keys import run_key, stream_key
from gymlab.core.types import Decision
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.jax import JaxEngine
from gymlab.envs.ports.registry import find_port
from gymlab.envs.settings import EnvSettings
from gymlab.experience.advantages import gae
from gymlab.networks.normalizer import Normalizer
from gymlab.networks.settings import PolicySettings
from gymlab.training.agent import Agent
from gymlab.training.collector_compiled import CompiledCollector
from gymlab.training.collector_host import HostCollector
from gymlab.training.named_tensors import to_tensors
from gymlab.training.state import step_keys
from gymlab.training.trainer_compiled import CompiledTrainer
from gymlab.training.trainer_host import HostTrainer

N, T = 4, 8


class Stepped:
    """A JAX engine behind the host engine's door, drawing from the keys a compiled rollout draws from."""

    def __init__(self, engine):
        self.engine, self.n_envs, self.spaces, self.restarts = engine, engine.n_envs, engine.spaces, 0
        self._step = jax.jit(engine.step)

    def begin(self, key):
        self.state, self.first = self.engine.init(key)

    def reset(self):
        return jax.tree.map(np.asarray, self.first)

    def use(self, key):
        self.keys, self.t = step_keys(key, T)[:, 1], 0

    def step(self, action):
        self.state, vec = self._step(self.state, action, self.keys[self.t])
        self.t += 1
        return jax.tree.map(np.asarray, vec)


def make_agent(spaces, algorithm=PPOAlgorithm, normalize=False, **settings):
    policy = PolicySettings(hidden=(8,))
    return Agent(
        algorithm(algorithm.Settings(**settings), policy, spaces),
        Normalizer(spaces.observation, obs=normalize, reward=normalize, clip=10),
    )


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
def test_the_host_collector_on_a_jax_port_gives_the_compiled_rollout(env_id):
    engine = JaxEngine(find_port(env_id, {}, 5), N)
    agent = make_agent(engine.spaces, batch_size=T * N)
    carry = agent.algorithm.initial_carry(N)
    compiled = CompiledCollector(engine, (), agent.act, carry, T)
    stepped = Stepped(engine)
    host = HostCollector(stepped, (), agent.act, carry, T)
    program = CompiledTrainer(agent, (compiled,), list(agent.algorithm.settings.schedules()))
    state = program.start(3)
    stepped.begin(stream_key(run_key(3), "first reset", 0))
    host_group, group, policy = host.begin(), state.groups[0], agent.policy(state)
    for update in range(3):  # a limit of 5 steps: rollouts begin in the middle of episodes
        key = stream_key(run_key(3), "collect", 0, update)
        stepped.use(key)
        group, one = jax.jit(compiled.collect)(policy, group, key)
        host_group, two = host.collect(policy, host_group, key)
        assert one.truncated.any()
        for name, a, b in zip(one._fields, one, two, strict=True):
            jax.tree.map(lambda x, y, n=name: np.testing.assert_allclose(x, y, atol=1e-5, err_msg=n), a, b)


def run(program, cuts, seed=0):
    state, done, rows = program.start(seed), 0, []
    schedules = program.agent.algorithm.settings.schedules()
    for k in cuts:
        shares = [(done + i) / 60 for i in range(k)]
        hp = np.stack([[*(s.at(share) for s in schedules.values()), share] for share in shares])
        state, more = program.advance(state, Clock(updates=done), hp, float("inf"))
        rows += more
        done += k
    digest = hashlib.sha256()
    for name, tensor in sorted(to_tensors(state).items()):
        digest.update(name.encode() + tensor.tobytes())
    return digest.hexdigest(), rows


def test_sixty_updates_cut_into_calls_in_five_ways_give_one_hash():
    engine = JaxEngine(find_port("CartPole-v1", {}, None), N)
    agent = make_agent(engine.spaces, normalize=True, batch_size=16, epochs=2, learning_rate="lin_1e-2")
    collector = CompiledCollector(engine, (), agent.act, agent.algorithm.initial_carry(N), T)
    program = CompiledTrainer(agent, (collector,), list(agent.algorithm.settings.schedules()))
    ways = [[60], [30, 30], [1] * 60, [7] * 8 + [4], [59, 1]]
    results = [run(program, way) for way in ways]
    assert len({digest for digest, _ in results}) == 1
    assert all(str(rows) == str(results[0][1]) for _, rows in results)
    assert run(program, [60], seed=1)[0] != results[0][0]


def test_a_compiled_call_ends_at_the_update_that_reaches_the_training_return():
    engine = JaxEngine(find_port("CartPole-v1", {}, None), 64)
    agent = make_agent(engine.spaces, batch_size=64 * T, epochs=1)
    collector = CompiledCollector(engine, (), agent.act, agent.algorithm.initial_carry(64), T)
    program = CompiledTrainer(agent, (collector,), list(agent.algorithm.settings.schedules()))
    hp = np.stack([[*(s.at(0) for s in agent.algorithm.settings.schedules().values()), 0.0]] * 40)
    _, rows = program.advance(program.start(0), Clock(), hp, 5.0)
    assert 1 < len(rows) < 40
    assert rows[-1]["roll/return_window"] == 100
    assert rows[-2]["roll/return_window"] < 100


class ToySettings(AlgorithmSettings):
    pass


class TwoStreams(Algorithm):
    """A carry that counts the steps of each episode, an extra that stores it, two value streams."""

    Settings = ToySettings

    def init(self, key, n_envs):
        return {"seen": jnp.zeros(2)}

    def weights(self, state):
        return state

    def with_weights(self, state, weights):
        return weights

    def initial_carry(self, n_envs):
        return {"age": jnp.zeros(n_envs, jnp.int32)}

    def act(self, weights, obs, carry, key, greedy=False):
        age = carry["age"] + 1
        action = jnp.zeros(age.shape, jnp.int32)
        return Decision(action, jnp.zeros(age.shape), {"age": age}, {"age": age})

    def update(self, state, rollouts, hp, key):
        (rollout,) = rollouts
        reward = jnp.stack([rollout.train_reward, rollout.train_reward], -1)
        zeros, ends = jnp.zeros_like(reward), rollout.terminated[..., None] | jnp.zeros(2, bool)
        advantages = gae(
            reward, zeros, zeros, ends, jnp.zeros_like(ends), gamma=jnp.array([0.0, 1.0]), lam=jnp.array([1.0, 1.0])
        )
        ages = rollout.extras["age"]
        follows = jnp.where(rollout.fresh[:-1], 1, ages[:-1] + 1)
        metrics = {
            "toy/age_wrong": jnp.sum(follows != ages[1:]) + jnp.sum(rollout.carry["age"] + 1 != ages[0]),
            "toy/age_max": ages.max(),
            "toy/stream0": advantages[..., 0].mean(),
            "toy/stream1": advantages[..., 1].mean(),
        }
        return {"seen": state["seen"] + 1}, metrics


@pytest.mark.parametrize("kind", ["compiled", "host"])
def test_a_carry_extras_and_two_streams_pass_through_both_collectors(kind):
    # MountainCar with a limit of 5: reward -1 a step, all episodes in step. gamma 0 gives -1; gamma 1 sums what is
    # left of the rollout (truncations do not terminate here): the mean of -8, -7, ..., -1 is -4.5.
    if kind == "compiled":
        engine = JaxEngine(find_port("MountainCar-v0", {}, 5), N)
        agent = make_agent(engine.spaces, TwoStreams)
        collector = CompiledCollector(engine, (), agent.act, agent.algorithm.initial_carry(N), T)
        program = CompiledTrainer(agent, (collector,), list(agent.algorithm.settings.schedules()))
    else:
        engine = GymnasiumEngine(EnvSettings(id="MountainCar-v0", max_episode_steps=5), N, 0)
        agent = make_agent(engine.spaces, TwoStreams)
        collector = HostCollector(engine, (), agent.act, agent.algorithm.initial_carry(N), T)
        program = HostTrainer(agent, (collector,), list(agent.algorithm.settings.schedules()))
    hp = np.ones((1, len(agent.algorithm.settings.schedules()) + 1))
    state = program.start(0)
    for update in range(3):
        state, rows = program.advance(state, Clock(updates=update), hp, float("inf"))
        assert rows[0]["toy/age_wrong"] == 0
        assert rows[0]["toy/age_max"] == 5
        assert rows[0]["toy/stream0"] == -1
        assert rows[0]["toy/stream1"] == -4.5
    np.testing.assert_array_equal(state.algorithm["seen"], [3, 3])
    program.close()


def test_the_action_stored_is_unclipped_and_the_one_sent_is_clipped():
    class Recorder(gym.ActionWrapper):
        seen: list = []  # noqa: RUF012

        def action(self, action):
            self.seen.append(action.copy())
            return action

    engine = GymnasiumEngine(EnvSettings(id="Pendulum-v1"), 2, 0, factory=lambda _: Recorder(gym.make("Pendulum-v1")))
    agent = make_agent(engine.spaces)
    agent.algorithm.policy_settings = None
    wide = PPOAlgorithm(PPOAlgorithm.Settings(), PolicySettings(hidden=(8,), log_std_init=2.0), engine.spaces)
    agent = Agent(wide, agent.normalising)
    collector = HostCollector(engine, (), agent.act, (), T)
    program = HostTrainer(agent, (collector,), list(wide.settings.schedules()))
    state = program.start(0)
    _, rollout = collector.collect(agent.policy(state), state.groups[0], jax.random.key(0))
    stored, sent = rollout.action.reshape(-1), np.concatenate(Recorder.seen)
    assert (abs(stored) > 2).any()
    np.testing.assert_array_equal(sent, np.clip(stored, -2, 2))
    log_prob = wide.network(state.algorithm.params).distribution(rollout.obs).log_prob(rollout.action)
    np.testing.assert_allclose(log_prob, rollout.log_prob, rtol=1e-4)
