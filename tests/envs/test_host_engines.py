"""What every host engine promises, in this process and over env processes."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest

from gymlab.core.errors import RunError, UserError
from gymlab.core.rng import episode_seed
from gymlab.core.types import Masked
from gymlab.envs.step_buffer import leaves
from tests.stepping import Make, actions, dump, engine_maker, play, sync


@pytest.fixture(params=["sync", "processes"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    yield from engine_maker(request.param)


@pytest.fixture(params=["sync", "processes", "envpool"])
def make_registered(request: pytest.FixtureRequest) -> Iterator[Make]:
    """For the envs that every host engine has."""
    yield from engine_maker(request.param)


def test_the_first_step_is_fresh_and_pays_nothing(make_registered: Make) -> None:
    engine = make_registered("CartPole-v1")
    step = engine.reset()
    assert step.fresh.all()
    assert not step.terminated.any()
    assert not step.truncated.any()
    assert step.reward.tolist() == step.train_reward.tolist() == [0, 0, 0]
    assert step.obs.tobytes() == step.successor.tobytes()
    assert step.components == {}
    assert (step.obs.dtype, step.reward.dtype, step.fresh.dtype) == (np.float32, np.float32, bool)
    assert engine.spaces.max_episode_steps == 500
    assert not engine.spaces.masked


def test_every_episode_is_the_one_its_seed_gives(make: Make) -> None:
    # Played beside plain Gymnasium envs that are reset by hand with the seed of (run, env, episode).
    engine = make("CartPole-v1", 3, 11)
    envs = [gymnasium.make("CartPole-v1") for _ in range(3)]
    episode = [0, 0, 0]
    step = engine.reset()
    for i, env in enumerate(envs):
        assert env.reset(seed=episode_seed(11, i, 0))[0].tobytes() == step.obs[i].tobytes()
    starts = [row.tobytes() for row in step.obs]
    for move in actions(engine, 120):
        step = engine.step(move)
        assert not (step.terminated & step.truncated).any()
        for i, env in enumerate(envs):
            obs, reward, terminated, truncated, _ = env.step(move[i])
            assert obs.tobytes() == step.successor[i].tobytes()
            assert (reward, terminated, truncated) == (step.reward[i], step.terminated[i], step.truncated[i])
            assert step.fresh[i] == terminated
            if terminated:
                episode[i] += 1
                obs, _ = env.reset(seed=episode_seed(11, i, episode[i]))
                starts.append(obs.tobytes())
            assert obs.tobytes() == step.obs[i].tobytes()
    assert min(episode) >= 2
    assert len(set(starts)) == len(starts)


def test_training_and_evaluation_start_elsewhere(make_registered: Make) -> None:
    train = make_registered("CartPole-v1", 2).reset().obs.copy()
    evaluate = make_registered("CartPole-v1", 2, evaluation=True).reset().obs.copy()
    assert not (train == evaluate).any()


def test_a_reset_begins_the_next_episode_or_the_one_asked_for(make_registered: Make) -> None:
    engine = make_registered("CartPole-v1", 2)
    first = engine.reset().obs.copy()
    second = engine.reset().obs.copy()
    assert not (first == second).any()
    assert (engine.reset(episode=0).obs == first).all()
    assert (engine.reset().obs == second).all()


def test_the_time_limit_truncates_and_keeps_the_successor(make: Make) -> None:
    engine = make("tests.example_envs:Forever-v0", 2)
    assert engine.spaces.max_episode_steps == 10
    engine.reset()
    for t in range(1, 21):
        step = engine.step(np.zeros(2, int))
        assert step.truncated.tolist() == step.fresh.tolist() == [t % 10 == 0] * 2
        assert not step.terminated.any()


def test_the_successor_is_the_true_last_observation(make: Make) -> None:
    engine = make("tests.example_envs:Variable-v0", 4)
    engine.reset()
    cuts = 0
    for move in actions(engine, 30):
        step = engine.step(move)
        assert (step.successor[step.fresh] == 0.0).all()  # nothing is left of the old episode
        assert (step.obs[step.fresh] == 1.0).all()  # and all of the new one
        assert (step.obs[~step.fresh] == step.successor[~step.fresh]).all()
        cuts += int(step.terminated.sum())
    assert cuts > 8


def test_terminated_wins_over_truncated(make: Make) -> None:
    engine = make("tests.example_envs:BothEnds-v0", 2, max_episode_steps=3)
    engine.reset()
    for _ in range(3):
        step = engine.step(np.zeros(2, int))
    assert step.terminated.all()
    assert not step.truncated.any()


def test_an_env_without_a_time_limit_gets_1000_steps() -> None:
    with sync("CliffWalking-v1", 2) as engine:
        assert engine.spaces.max_episode_steps == 1000
        engine.reset()
        for _ in range(999):
            assert not engine.step(np.zeros(2, int)).fresh.any()  # always up: bumps into the wall
        step = engine.step(np.zeros(2, int))
        assert step.truncated.all()
        assert step.obs.dtype == np.int32


def test_our_own_time_limit_equals_gymnasiums() -> None:
    # The same env with a wrapper that does nothing keeps Gymnasium's TimeLimit inside.
    moves = [np.zeros(2, int)] * 450
    with (
        sync("MountainCar-v0", 2, max_episode_steps=150) as own,
        sync("MountainCar-v0", 2, max_episode_steps=150, wrappers=({"frame_skip": 1},)) as theirs,
    ):
        assert dump(own.reset()) == dump(theirs.reset())
        assert play(own, moves) == play(theirs, moves)


def test_inactive_envs_stand_still(make_registered: Make) -> None:
    engine = make_registered("CartPole-v1", 4)
    start = engine.reset().obs.copy()
    active = np.array([True, False, True, False])
    for move in actions(engine, 40):
        step = engine.step(move, active)
        assert (step.obs[~active] == start[~active]).all()
        assert (step.successor[~active] == start[~active]).all()
        assert not step.fresh[~active].any()
        assert not step.reward[~active].any()
    assert (engine.snapshot()["elapsed"][~active] == 0).all()
    # They go on from where they stood, as if nothing had been.
    other = make_registered("CartPole-v1", 4)
    other.reset()
    assert (engine.step(np.ones(4, int)).obs[1] == other.step(np.ones(4, int)).obs[1]).all()


@pytest.mark.parametrize("n", [1, 64])
def test_early_cuts_and_ends_keep_the_contract_for_one_env_and_for_many(make_registered: Make, n: int) -> None:
    # A limit of 12 cuts most episodes of CartPole under random play; some end by themselves before, or at the limit.
    engine = make_registered("CartPole-v1", n, max_episode_steps=12)
    engine.reset()
    cut = ended = 0
    for move in actions(engine, 80):
        before = engine.snapshot()["elapsed"] if n > 1 else None
        step = engine.step(move)
        assert not (step.terminated & step.truncated).any()
        assert (step.fresh == (step.terminated | step.truncated)).all()
        assert (step.obs[~step.fresh] == step.successor[~step.fresh]).all()
        assert (step.obs[step.fresh] != step.successor[step.fresh]).any(axis=1).all()
        assert (np.abs(step.obs[step.fresh]) <= 0.05).all()  # where episodes of CartPole begin
        fell = (np.abs(step.successor[:, 0]) > 2.4) | (np.abs(step.successor[:, 2]) > 12 * np.pi / 180)
        assert (fell == step.terminated).all()
        if before is not None:
            assert ((before[~step.terminated] == 11) == step.truncated[~step.terminated]).all()
        cut, ended = cut + int(step.truncated.sum()), ended + int(step.terminated.sum())
    assert cut >= n
    assert ended >= (n == 64)


def test_actions_are_masked_where_the_env_says_so(make: Make) -> None:
    engine = make("tests.example_envs:Masked-v0", 3)
    assert engine.spaces.masked
    step = engine.reset()
    for _ in range(30):
        assert isinstance(step.obs, Masked)
        assert isinstance(step.successor, Masked)
        assert step.obs.mask.dtype == bool
        assert step.obs.mask.tolist() == [[cell > 0, cell < 4, True] for cell in step.obs.obs]
        step = engine.step(np.array([1, 2, 1]) % 3)
    with sync("tests.example_envs:Masked-v0", 3, action_mask=False) as plain:
        assert not plain.spaces.masked
        assert plain.reset().obs.shape == (3,)


def test_dict_observations_are_dicts_of_arrays(make: Make) -> None:
    engine = make("tests.example_envs:Custom-v0", 3)
    step = engine.reset()
    assert list(step.obs) == list(engine.spaces.observation.spaces)
    assert (step.obs["position"].shape, step.obs["position"].dtype) == ((3, 2), np.float32)
    assert (step.obs["kind"].shape, step.obs["kind"].dtype) == ((3,), np.int32)
    kind, position = step.obs["kind"].copy(), step.obs["position"].copy()
    step = engine.step(np.stack([kind, position[:, 0] > 0], axis=1))
    assert step.reward.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("env", "shapes"),
    [
        ("Blackjack-v1", [((2,), np.int32)] * 3),
        ("tests.example_envs:Switches-v0", [((2, 3), np.int8)]),
        ("tests.example_envs:Identity-v0", [((2,), np.int32)]),
        ("Pendulum-v1", [((2, 3), np.float32)]),
    ],
)
def test_each_space_has_its_array(env: str, shapes: list) -> None:
    with sync(env, 2) as engine:
        engine.reset()
        for move in actions(engine, 40):
            step = engine.step(move)
        assert [(leaf.shape, leaf.dtype) for leaf in leaves(step.obs)] == shapes


def test_a_fault_names_env_episode_seed_step_action_and_trace(make: Make) -> None:
    engine = make("tests.example_envs:Raises-v0", 3, 5, kwargs={"k": 4}, max_episode_steps=4)
    engine.reset()
    for _ in range(3):
        engine.step(np.array([0, 1, 1]))
    with pytest.raises(RunError) as error:
        engine.step(np.array([0, 1, 1]))
    told = str(error.value)
    assert told.startswith(
        "env 0 (tests.example_envs:Raises-v0) failed in episode 0 "
        f"(seed {episode_seed(5, 0, 0)}) at step 4 with action 0: "
        "RuntimeError: the simulator fell over\nTraceback"
    )
    assert 'raise RuntimeError("the simulator fell over")' in told
    assert told.endswith("gymlab envs check tests.example_envs:Raises-v0")


def test_numbers_that_are_none_stop_the_run(make: Make) -> None:
    engine = make("tests.example_envs:NotANumber-v0", 2, kwargs={"k": 30})
    engine.reset()
    with pytest.raises(
        RunError, match=r"env 0 .* at step 30 with action 0: observation holds NaN or infinity: \[nan\]"
    ):
        play(engine, [np.zeros(2, int)] * 40)


def test_a_mask_that_allows_nothing_stops_the_run(make: Make) -> None:
    engine = make("tests.example_envs:NoWayOut-v0", 2)
    engine.reset()
    engine.step(np.array([2, 1]))
    with pytest.raises(RunError, match=r"env 1 .* at step 2 with action 1: its action mask allows no action"):
        engine.step(np.array([2, 1]))


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ("tests.example_envs:Shrinks-v0", r"at step 1 .*observation has shape \(3,\), its space says \(1,\)"),
        ("tests.example_envs:OldStyle", r"at its reset: TypeError: .*unexpected keyword argument 'seed'"),
    ],
)
def test_an_observation_that_is_not_of_its_space_is_named(env: str, told: str) -> None:
    def play_one_step() -> None:
        with sync(env, 1) as engine:
            engine.reset()
            engine.step(np.zeros((1, *engine.spaces.action.shape)))

    with pytest.raises(RunError, match=told):
        play_one_step()


def test_an_unknown_env_is_the_users_mistake_in_any_process(make: Make) -> None:
    with pytest.raises(UserError, match="did you mean 'CartPole-v1'"):
        make("CartPole-v9")
