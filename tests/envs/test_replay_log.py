"""An env comes back exactly from its episode's seed and its actions, or says that it did not."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest

from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.settings import EnvSettings
from gymlab.envs.step_buffer import leaves
from tests.stepping import Make, actions, engine_maker, play, sync


@pytest.fixture(params=["sync", "processes"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    yield from engine_maker(request.param)


SNAPSHOTS = [
    ("CartPole-v1", 60),
    ("LunarLander-v3", 150),
    ("BipedalWalker-v3", 130),
    ("tests.example_envs:Custom-v0", 75),
    ("tests.example_envs:Masked-v0", 15),
    ("tests.example_envs:Variable-v0", 40),
    ("FrozenLake-v1", 50),
    ("Blackjack-v1", 30),
]


@pytest.mark.parametrize(("env", "before"), SNAPSHOTS)
def test_a_snapshot_brings_every_env_back_bit_for_bit(env: str, before: int) -> None:
    after = 200
    with sync(env, 3, 9) as engine, sync(env, 3, 9) as other:
        moves = actions(engine, before + after)
        if engine.spaces.masked:
            moves = [np.full(3, 2)] * len(moves)  # to stay is always legal
        engine.reset()
        for move in moves[:before]:
            last = engine.step(move)
        held = {key: array.copy() for key, array in engine.snapshot().items()}
        restored = other.restore(held)
        assert (restored.exact, restored.reason) == (True, "")
        assert [a.tobytes() for a in leaves(restored.step.obs)] == [a.tobytes() for a in leaves(last.obs)]
        assert not restored.step.reward.any()
        assert restored.step.fresh.tolist() == (held["elapsed"] == 0).tolist()
        assert play(engine, moves[before:]) == play(other, moves[before:])
        assert {k: v.tobytes() for k, v in engine.snapshot().items()} == {
            k: v.tobytes() for k, v in other.snapshot().items()
        }


def test_snapshots_pass_between_engines(make: Make) -> None:
    engine = make("LunarLander-v3", 3)
    moves = actions(engine, 260)
    engine.reset()
    play(engine, moves[:160])
    with sync("LunarLander-v3", 3) as other:
        assert other.restore(engine.snapshot()).exact
        expected = play(other, moves[160:])
    with sync("LunarLander-v3", 3) as other:
        other.reset()
        play(other, moves[:160])
        seen: list[tuple[int, int]] = []
        assert engine.restore(other.snapshot(), lambda done, total: seen.append((done, total))).exact
    assert play(engine, moves[160:]) == expected


def test_the_action_log_grows_beyond_its_first_size() -> None:
    with sync("Pendulum-v1", 2, max_episode_steps=3000) as engine:
        moves = actions(engine, 1500)
        engine.reset()
        play(engine, moves)
        snapshot = engine.snapshot()
        assert snapshot["elapsed"].tolist() == [1500, 1500]
        assert (snapshot["actions"][:1500] == np.stack(moves)[:, 0]).all()
        restored = engine.restore(snapshot)
        assert restored.exact
        assert (restored.step.obs == engine.restore(engine.snapshot()).step.obs).all()


def test_an_env_that_remembers_is_not_called_exact() -> None:
    with sync("tests.example_envs:Remembers-v0", 2) as engine, sync("tests.example_envs:Remembers-v0", 2) as other:
        engine.reset()
        play(engine, actions(engine, 29))
        snapshot = engine.snapshot()
        restored = other.restore(snapshot)
        assert not restored.exact
        assert restored.reason.startswith("env ")
        assert "gave other observations, rewards or endings than the run had" in restored.reason
        begun = other.snapshot()["elapsed"] == 0
        assert begun.any()
        assert restored.step.fresh.tolist() == begun.tolist()
        assert (other.snapshot()["episode"] >= snapshot["episode"]).all()


def test_a_snapshot_of_another_size_begins_new_episodes(make: Make) -> None:
    with sync("CartPole-v1", 2) as small:
        small.reset()
        play(small, actions(small, 50))
        snapshot = small.snapshot()
    engine = make("CartPole-v1", 4)
    restored = engine.restore(snapshot)
    assert not restored.exact
    assert "holds 2 envs and this run has 4" in restored.reason
    assert restored.step.fresh.all()
    assert (engine.snapshot()["episode"] == snapshot["episode"].max() + 1).all()


def test_env_objects_resume_at_an_episode_boundary() -> None:
    given = gymnasium.make("CartPole-v1", max_episode_steps=25)

    def factory(index: int) -> gymnasium.Env:
        return given if index == 0 else gymnasium.make("CartPole-v1", max_episode_steps=25)

    with GymnasiumEngine(EnvSettings(id="CartPole-v1"), 2, 0, factory=factory) as engine:
        assert engine.envs[0] is given
        assert engine.spaces.max_episode_steps == 25
        assert not engine.restorable
        engine.reset()
        play(engine, actions(engine, 60))
        snapshot = engine.snapshot()
        restored = engine.restore(snapshot)
        assert not restored.exact
        assert "cannot be rebuilt" in restored.reason
        assert (engine.snapshot()["episode"] > snapshot["episode"]).all()
