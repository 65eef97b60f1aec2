"""The protocol of learning: one toy algorithm uses all of it, through both engines, and resumes byte for byte."""

import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.core.clock import Clock
from gymlab.core.errors import UserError
from gymlab.core.types import Rollout
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.jax import JaxEngine
from gymlab.envs.ports.registry import find_port
from gymlab.envs.settings import EnvSettings
from gymlab.envs.task_id import TaskId
from gymlab.envs.transform import transformed
from gymlab.experience.advantages import state_values
from gymlab.networks.normalizer import Normalizer
from gymlab.networks.settings import PolicySettings
from gymlab.session.predictor import Predictor, compile_agent
from gymlab.training.agent import Agent
from gymlab.training.collector_compiled import CompiledCollector
from gymlab.training.collector_host import HostCollector
from gymlab.training.named_tensors import to_tensors
from gymlab.training.nonfinite import NumericalFault
from gymlab.training.trainer_compiled import CompiledTrainer
from gymlab.training.trainer_host import HostTrainer
from gymlab.training.trainer_vmapped import VmappedRuns
from gymlab.training.update_histograms import HistogramSchedule
from tests.training.toy_algorithm import ToyAlgorithm, ToySettings, begun_as_recorded

T, UPDATES = 4, 12
TASKS = {"short": (3, 5), "long": (2, 9)}  # name -> envs, and steps at which an episode is cut
SIZE = T * sum(n for n, _ in TASKS.values())  # env steps of an update
CLOCKS = ("toy/update", "toy/env_steps", "toy/gradient_steps")


def make_engines(kind):
    if kind == "compiled":
        return [JaxEngine(find_port("CartPole-v1", {}, limit), n) for n, limit in TASKS.values()]
    settings = [(EnvSettings(id="CartPole-v1", max_episode_steps=limit), n) for n, limit in TASKS.values()]
    return [GymnasiumEngine(env, n, 7) for env, n in settings]


@cache
def make_trainer(kind, statistics="basic"):
    """Compiled once per engine; `another` has envs of its own."""
    transforms = {name: (TaskId(index=i, tasks=len(TASKS)),) for i, name in enumerate(TASKS)}
    engines = dict(zip(TASKS, make_engines(kind), strict=True))
    collector = CompiledCollector if kind == "compiled" else HostCollector
    trainer = CompiledTrainer if kind == "compiled" else HostTrainer
    spaces = transformed(engines["short"].spaces, transforms["short"])
    algorithm = ToyAlgorithm(ToySettings(learning_rate=0.02), PolicySettings(), spaces)
    normalizer = Normalizer(spaces.observation, obs=True, reward=False, clip=10)
    agent = Agent(algorithm, normalizer, statistics=statistics, tasks=tuple(TASKS))
    collectors = tuple(
        collector(engines[name], transforms[name], agent.actor(i), algorithm.initial_carry(n), T)
        for i, (name, (n, _)) in enumerate(TASKS.items())
    )
    schedule = HistogramSchedule(lambda update: statistics == "full" and update == 3)
    return trainer(agent, collectors, list(algorithm.settings.schedules()), schedule)


def another(trainer, kind):
    """A trainer that shares compiled code and nothing else: its envs are new."""
    schedule = HistogramSchedule()
    return trainer.again(schedule) if kind == "compiled" else trainer.again(make_engines(kind), schedule)


def advance(trainer, state, clock, count):
    """The state, clock and rows after so many updates."""
    rows = []
    while len(rows) < count:
        k = min(trainer.most, count - len(rows))
        shares = (clock.updates + np.arange(k)) / UPDATES
        schedules = trainer.agent.algorithm.settings.schedules().values()
        hp = np.array([[*(s.at(share) for s in schedules), share] for share in shares], np.float32)
        state, more = trainer.advance(state, clock, hp, math.inf)
        rows += more
        clock = Clock(
            clock.updates + k,
            clock.vec_steps + k * T,
            clock.env_steps + k * SIZE,
            gradient_steps=clock.gradient_steps + sum(row.gradient_steps for row in more),
        )
    return state, clock, rows


def as_bytes(tensors):
    return {name: tensor.tobytes() for name, tensor in tensors.items() if not name.endswith("restarts")}


class Uninterrupted:
    """A run to its end, with what a checkpoint at each update would hold."""

    def __init__(self, kind):
        self.kind = kind
        self.trainer = trainer = another(make_trainer(kind), kind)
        state, clock = trainer.start(0), Clock()
        self.saved, self.rows = [(trainer.save(state), clock)], []
        for _ in range(UPDATES):
            state, clock, rows = advance(trainer, state, clock, 1)
            self.saved.append((trainer.save(state), clock))
            self.rows += rows

    def assert_same_from(self, update):
        """Nothing but the checkpoint at this update is known: what follows is the same, byte for byte."""
        trainer = another(self.trainer, self.kind)
        tensors, clock = self.saved[update]
        state, reasons = trainer.load(trainer.start(0), tensors)
        assert reasons == []
        state, clock, rows = advance(trainer, state, clock, UPDATES - update)
        assert as_bytes(trainer.save(state)) == as_bytes(self.saved[-1][0])
        assert clock == self.saved[-1][1]
        steady = [[row[name] for name in row if not name.startswith("time/")] for row in (*rows, *self.rows[update:])]
        assert str(steady[: len(rows)]) == str(steady[len(rows) :])
        trainer.close()


@pytest.fixture(scope="module", params=["compiled", "host"])
def whole(request):
    run = Uninterrupted(request.param)
    yield run
    run.trainer.close()


def test_killed_in_warm_up_in_mid_episode_and_after_the_buffer_is_full_it_goes_on_byte_for_byte(whole):
    for update in (1, 3, 9):
        whole.assert_same_from(update)


@pytest.mark.slow
def test_killed_after_any_update_it_goes_on_byte_for_byte(whole):
    for update in range(UPDATES):  # with both engines 24 kills
        whole.assert_same_from(update)


def test_clocks_count_on_after_a_resume(whole):
    learning = [row for row in whole.rows if row["opt/gradient_steps"]]
    first = UPDATES - len(learning)
    assert first == 1  # the first update begins with 0 of the 20 steps at which learning starts
    counted = [[row[name] for name in CLOCKS] for row in learning]
    assert counted == [[u, u * SIZE, 2 * (u - first + 1)] for u in range(first, UPDATES)]
    assert [row["toy/progress"] for row in learning] == pytest.approx(np.arange(first, UPDATES) / UPDATES)
    assert whole.saved[-1][1].gradient_steps == 2 * len(learning)


def test_before_learning_starts_statistics_move_and_weights_do_not(whole):
    (begun, _), (warmed, _), (learnt, _) = whole.saved[:3]
    weights = [name for name in begun if name.startswith("algorithm/params/")]
    assert all(begun[name].tobytes() == warmed[name].tobytes() != learnt[name].tobytes() for name in weights)
    assert warmed["algorithm/buffers/rollouts"] == 1
    assert math.isnan(whole.rows[0]["opt/loss"])


def test_each_task_has_its_own_metrics_and_normaliser(whole):
    # CartPole pays 1 a step, and a policy that hardly learns lasts until the task's limit cuts it, or nearly so.
    last = whole.rows[-1]
    assert last["roll/return_mean@short"] <= 5 < last["roll/return_mean@long"] <= 9
    assert last["roll/episodes"] == last["roll/episodes@short"] + last["roll/episodes@long"]
    assert "roll/return_mean" not in last
    means = [whole.saved[-1][0][f"normaliser/{task}/obs/obs/mean"] for task in range(2)]
    assert not np.allclose(*means)
    counts = [whole.saved[-1][0][f"normaliser/{task}/obs/obs/count"] for task in range(2)]
    assert counts == [UPDATES * T * n for n, _ in TASKS.values()]


def test_a_stop_return_is_reached_when_all_tasks_reach_it():
    agent = make_trainer("compiled").agent
    full = {f"roll/return_window@{name}": jnp.int32(100) for name in TASKS}
    means = [{"roll/return_mean@short": a, "roll/return_mean@long": b} for a, b in ((5.0, 9.0), (5.0, 6.9), (4.0, 9.0))]
    assert [bool(agent.window_reached(full | mean, jnp.float32(5.0))) for mean in means] == [True, True, False]


def test_histograms_are_taken_of_every_task_and_of_the_shared_weights_once():
    trainer = make_trainer("compiled", "full")
    _, _, rows = advance(trainer, trainer.start(0), Clock(), 3)
    named = rows[-1]
    for task in TASKS:
        assert f"roll/return_hist@{task}" in named.histograms
        assert math.isfinite(named[f"env/obs_mean@{task}"])
    assert math.isfinite(named["opt/param_norm"])
    assert not any(name.startswith("opt/param_norm") and "@" in name for name in named)


def recorded_sequences(trainer, updates):
    """A policy and a rollout of it by the compiled collector, normalised, with resets in it."""
    state, clock, _ = advance(trainer, trainer.start(0), Clock(), updates)
    rollouts = trainer.agent.normalize(state, trainer.recollect(state, clock.updates))
    return state.algorithm.params, rollouts


def test_replay_gives_the_log_probs_that_acting_gave():
    trainer = make_trainer("compiled")
    fresh = 0
    for updates in (3, 6):
        params, rollouts = recorded_sequences(trainer, updates)
        for rollout in rollouts:
            replayed = trainer.agent.algorithm.replay(params, rollout)
            np.testing.assert_allclose(replayed.distribution.log_prob(rollout.action), rollout.log_prob, atol=1e-5)
            fresh += int(rollout.fresh[:-1].sum())
    assert fresh >= 3


def hand_made(algorithm, terminated, fresh, truncated=None, successor=None):
    """A rollout of one env with these ends, of random observations."""
    steps = len(fresh)
    key = jax.random.key(3)
    obs = jax.random.normal(key, (steps + 1, 1, 4))
    task = jnp.zeros((steps + 1, 1), jnp.int32)
    flags = [jnp.array(x if x is not None else [0] * steps, bool)[:, None] for x in (terminated, truncated, fresh)]
    after = obs[1:] if successor is None else successor
    zeros = jnp.zeros((steps, 1))
    return Rollout(
        {"obs": obs[:-1], "task": task[:-1]}, jnp.zeros((steps, 1), jnp.int32), zeros, zeros, zeros, {}, *flags,
        {"obs": after, "task": task[1:]}, {"obs": obs[-1], "task": task[-1]}, algorithm.initial_carry(1), {},
    )  # fmt: skip


@pytest.fixture(scope="module")
def toy():
    algorithm = make_trainer("compiled").agent.algorithm
    return algorithm, algorithm.init(jax.random.key(1), (1,)).params


def test_memory_is_reset_where_an_episode_begins_not_where_learning_sees_an_end(toy):
    # Episodic life: the second step terminates and the env's episode goes on, so what came before still counts.
    algorithm, params = toy
    lost_life = algorithm.replay(params, hand_made(algorithm, [0, 1, 0, 0], [0, 0, 0, 0]))
    unbroken = algorithm.replay(params, hand_made(algorithm, [0, 0, 0, 0], [0, 0, 0, 0]))
    new_episode = algorithm.replay(params, hand_made(algorithm, [0, 1, 0, 0], [0, 1, 0, 0]))
    np.testing.assert_array_equal(lost_life.value, unbroken.value)
    assert abs(new_episode.value[2] - unbroken.value[2]).max() > 1e-3
    other = hand_made(algorithm, [0, 1, 0, 0], [0, 1, 0, 0])
    poisoned = other._replace(obs={**other.obs, "obs": other.obs["obs"].at[:2].set(99.0)})
    np.testing.assert_array_equal(algorithm.replay(params, poisoned).value[2:], new_episode.value[2:])


def test_a_cut_is_valued_with_the_memory_of_its_own_episode(toy):
    # The same four steps, cut after the second or not: V of the state the second led to is the same.
    algorithm, params = toy
    uncut = hand_made(algorithm, None, [0, 0, 0, 0])
    cut = hand_made(algorithm, None, [0, 1, 0, 0], truncated=[0, 1, 0, 0], successor=uncut.successor["obs"])
    replay, value = partial(algorithm.replay, params), partial(algorithm.value, params)
    np.testing.assert_allclose(
        state_values(replay, value, cut).next_values[1], state_values(replay, value, uncut).next_values[1], rtol=1e-6
    )


def test_two_rollouts_give_the_values_of_one_of_both_lengths(toy):
    algorithm, params = toy
    whole = hand_made(algorithm, None, [0, 1, 0, 0, 1, 0], truncated=[0, 1, 0, 0, 1, 0])
    replayed = algorithm.replay(params, whole)
    first, second = (jax.tree.map(lambda x, p=part: x[p], whole._replace(last_obs=(), carry=()))
                     for part in (slice(0, 3), slice(3, 6)))  # fmt: skip
    one = algorithm.replay(params, first._replace(carry=whole.carry))
    two = algorithm.replay(params, second._replace(carry=jax.tree.map(lambda x: x[-1], one.carries)))
    np.testing.assert_allclose(jnp.concatenate([one.value, two.value]), replayed.value, atol=1e-6)


def test_a_sequence_of_replay_begins_with_the_memory_it_was_recorded_with():
    trainer = make_trainer("compiled")
    params, (rollout, _) = recorded_sequences(trainer, 2)
    later = jax.tree.map(lambda x: x[1:3], rollout._replace(last_obs=(), carry=(), components={}))
    replayed = trainer.agent.algorithm.replay(params, begun_as_recorded(later))
    np.testing.assert_allclose(replayed.distribution.log_prob(later.action), later.log_prob, atol=1e-5)


def test_predict_goes_on_from_the_memory_it_gave():
    # Three envs of the first task: what acting gave in a rollout is what a user's own loop gets, if he hands the memory
    # on and says where an episode begins; without it the probabilities are others.
    trainer = make_trainer("compiled")
    state, clock, _ = advance(trainer, trainer.start(0), Clock(), 2)
    rollout = trainer.recollect(state, clock.updates)[0]  # a limit of 5: one episode ends after its second step
    agent = trainer.agent
    predictor = Predictor(compile_agent(agent, 3), agent.algorithm.spaces, 0)
    memory = rollout.carry
    starts = np.zeros(3, bool)
    for t in range(T):
        obs = jax.tree.map(lambda x, t=t: np.asarray(x[t]), rollout.obs)
        np.testing.assert_allclose(
            np.where(starts[:, None], 0.0, memory["memory"]), rollout.extras["memory"][t], atol=1e-6
        )
        _, memory = predictor(agent.policy(state), obs, deterministic=True, state=memory, episode_start=starts)
        starts = np.asarray(rollout.fresh[t])
    _, forgetful = predictor(agent.policy(state), obs, deterministic=True)
    assert rollout.fresh.any()
    assert abs(forgetful["memory"] - memory["memory"]).max() > 1e-3


@pytest.mark.parametrize("kind", ["compiled", "host"])
def test_the_buffer_is_changed_in_place(kind):
    trainer = another(make_trainer(kind), kind)
    state, clock, _ = advance(trainer, trainer.start(0), Clock(), 1)
    held = state.experience[0].steps.reward
    advance(trainer, state, clock, 1)
    assert held.is_deleted()
    trainer.close()


def test_a_fault_leaves_the_buffer_without_the_discarded_rollout():
    trainer = make_trainer("compiled")
    state, clock, _ = advance(trainer, trainer.start(0), Clock(), 2)
    hp = np.full((3, len(trainer.hp_names) + 1), np.nan, np.float32)
    with pytest.raises(NumericalFault) as raised:
        trainer.advance(state, clock, hp, math.inf)
    good = raised.value.good
    assert good.rows == []
    assert raised.value.bad.update == 2
    assert [int(buffer.size) for buffer in good.state.experience] == [2 * T, 2 * T]
    for one, two in zip(*(jax.tree.leaves(s.algorithm) for s in (good.state, state)), strict=True):
        np.testing.assert_array_equal(one, two)


def test_vmapped_runs_refuse_replay():
    trainer = make_trainer("compiled")
    with pytest.raises(UserError, match="learns from replay"):
        VmappedRuns(2, None).member_trainer(0, trainer, HistogramSchedule())


def test_tensors_of_one_task_are_named_as_ever():
    trainer = make_trainer("compiled")
    agent = Agent(trainer.agent.algorithm, trainer.agent.normalising)
    assert {name.split("/")[0] for name in to_tensors(agent.initial_normaliser())} == {"obs"}
