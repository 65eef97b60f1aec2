"""Atari pictures: one definition, two ways of carrying it out, the same frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.core.rng import episode_seed
from gymlab.core.types import VecStep
from gymlab.envs.engines.ale import AleEngine, unsupported_reason
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.games.atari.pictures import PictureSettings, shrink
from gymlab.envs.make import make_env, split_wrappers, time_limit
from gymlab.envs.settings import EnvSettings
from gymlab.envs.wrappers.clip_reward import ClipReward
from tests.stepping import actions, dump, play

pytest.importorskip("ale_py", reason="pip install 'gymlab[atari]'")

GREY_LEVELS = 1  # by which the two paths may differ: they round the means of areas differently


def wanted(game: str = "Breakout", kwargs: dict[str, Any] | None = None, **given: Any) -> EnvSettings:
    given = {"repeat_action_probability": 0.0, "episodic_life": True, **given}
    return EnvSettings(id=f"ALE/{game}-v5", kwargs=kwargs or {}, wrappers=({"atari": given},))


def assert_alike(mine: VecStep, native: VecStep) -> None:
    for field in ("reward", "train_reward", "terminated", "truncated", "fresh"):
        assert (getattr(mine, field) == getattr(native, field)).all(), field
    for field in ("obs", "successor"):
        gap = np.abs(getattr(mine, field).astype(int) - getattr(native, field))
        assert gap.max() <= GREY_LEVELS


def compared(settings: EnvSettings, steps: int, n: int = 2) -> dict[str, int]:
    """Both engines over the same seeds and actions, step by step; what happened on the way."""
    with GymnasiumEngine(settings, n, 7) as ours, AleEngine(settings, n, 7) as native:
        assert ours.spaces == native.spaces
        assert_alike(ours.reset(), native.reset())
        seen = {"ended": 0, "lives": 0, "paid": 0}
        for move in actions(ours, steps):
            step = ours.step(move)
            assert_alike(step, native.step(move))
            seen["ended"] += int(step.fresh.sum())
            seen["lives"] += int((step.terminated & ~step.fresh).sum())
            seen["paid"] += int((step.reward != 0).sum())
        return seen


def test_both_paths_give_the_same_frames_over_2000_steps() -> None:
    seen = compared(wanted(), 1000)  # of two envs
    assert min(seen.values()) > 5, seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "given"),
    [
        ("Pong", {}),
        ("Breakout", {"grayscale": False, "size": (96, 80), "stack": 2}),
        ("Seaquest", {"episodic_life": False, "max_pool": False, "noop_max": 0}),
        ("SpaceInvaders", {"frameskip": 3, "fire_reset": False, "noop_max": 10}),
        ("Qbert", {"size": (210, 160), "stack": 1}),
    ],
)
def test_every_toggle_means_the_same_on_both_paths(game: str, given: dict[str, Any]) -> None:
    compared(wanted(game, **given), 2000, 1)


def test_no_picture_of_the_last_game_leaks_into_the_next() -> None:
    # No FIRE and no idle frames: the first picture is that of the restored state, which the emulator does not redraw.
    bare = {"fire_reset": False, "noop_max": 0, "size": (210, 160), "stack": 1}
    for sticky, grayscale in ((0.0, True), (0.25, True), (0.25, False)):
        env = make_env(wanted(**bare, repeat_action_probability=sticky, grayscale=grayscale), render_mode="rgb_array")
        first, _ = env.reset(seed=1)
        rendered = env.render()
        for action in (1, 2, 2, 3, 0, 0, 2, 2):
            env.step(action)
        assert (env.render() != rendered).any()
        again, _ = env.reset(seed=1)
        assert (again == first).all()
        assert (env.render() == rendered).all()
        env.close()
    for game in ("Breakout", "Qbert"):
        limited = wanted(game, **bare).model_copy(update={"max_episode_steps": 20})
        assert compared(limited, 50)["ended"] >= 4


@pytest.mark.slow
@pytest.mark.parametrize("game", ["Breakout", "MsPacman", "Freeway", "Pong", "SpaceInvaders"])
def test_with_sticky_actions_both_paths_play_games_of_one_distribution(game: str) -> None:
    """Returns, lengths and what moves on the screen over 200 games of up to 120 decisions, the same actions on both."""
    from scipy.stats import ks_2samp

    settings = wanted(game, repeat_action_probability=0.25, episodic_life=False).model_copy(
        update={"max_episode_steps": 120}
    )
    n = 10
    found = []
    for make in (GymnasiumEngine, AleEngine):
        returns, lengths, moved = [], [], []
        total, length, change = np.zeros(n), np.zeros(n), np.zeros(n)
        with make(settings, n, 7) as engine:
            before = engine.reset().obs[..., -1].astype(int)
            rng = np.random.default_rng(3)
            while len(returns) < 200:
                step = engine.step(rng.integers(engine.spaces.action.n, size=n))
                now = step.obs[..., -1].astype(int)
                total += step.reward
                length += 1
                change += np.abs(now - before).mean((1, 2))
                before = now
                for row in np.flatnonzero(step.fresh):
                    returns.append(total[row])
                    lengths.append(length[row])
                    moved.append(change[row] / length[row])
                    total[row] = length[row] = change[row] = 0
        found.append((returns, lengths, moved))
    for what, ours, native in zip(("return", "length", "movement"), *found, strict=True):
        assert ks_2samp(ours, native).pvalue > 0.001, (game, what)


def test_the_full_action_space_and_a_limit_reach_both_paths() -> None:
    settings = wanted(kwargs={"full_action_space": True}).model_copy(update={"max_episode_steps": 25})
    with AleEngine(settings, 1, 7) as native:
        assert native.spaces.action.n == 18
    assert compared(settings, 60, 1)["ended"] == 2


def test_a_lost_life_ends_nothing_but_the_bootstrap_and_only_in_training() -> None:
    settings = wanted()
    for make in (GymnasiumEngine, AleEngine):
        lost = {False: 0, True: 0}
        for evaluation in lost:
            with make(settings, 1, 3, evaluation=evaluation) as engine:
                engine.reset()
                for move in actions(engine, 150):
                    step = engine.step(move)
                    lost[evaluation] += int(step.terminated[0] and not step.fresh[0])
        assert lost[False] >= 2, make
        assert lost[True] == 0, make


def test_rewards_are_clipped_for_learning_alone() -> None:
    assert split_wrappers(wanted())[1] == (ClipReward(to="sign"),)
    assert split_wrappers(wanted(clip_reward=False))[1] == ()
    with AleEngine(wanted(), 1, 7) as native:
        native.reset()
        paid = [float(native.step(move).reward[0]) for move in actions(native, 300)]
    assert max(paid) >= 1.0


def test_the_native_engine_resumes_exactly() -> None:
    settings = wanted(repeat_action_probability=0.25, size=(20, 20))
    with AleEngine(settings, 2, 5) as engine, AleEngine(settings, 2, 5) as other:
        engine.reset()
        moves = actions(engine, 260)
        play(engine, moves[:230])
        kept = engine.snapshot()
        assert len(set(kept["elapsed"].tolist())) > 1  # the envs stand at different steps
        then = play(engine, moves[230:])
        told: list[tuple[int, int]] = []
        restored = other.restore(kept, lambda done, all_: told.append((done, all_)))
        assert restored.exact, restored.reason
        assert told
        assert play(other, moves[230:]) == then
        assert {name: part.tobytes() for name, part in other.snapshot().items()} == {
            name: part.tobytes() for name, part in engine.snapshot().items()
        }


def test_what_cannot_be_replayed_begins_new_episodes() -> None:
    settings = wanted(size=(20, 20))
    with AleEngine(settings, 1, 5) as engine, AleEngine(settings, 2, 5) as larger, AleEngine(settings, 1, 5) as other:
        engine.reset()
        play(engine, actions(engine, 20))
        kept = engine.snapshot()
        restored = larger.restore(kept)
        assert (restored.exact, restored.reason) == (
            False, "the checkpoint holds 1 envs and this run has 2: new episodes began"
        )  # fmt: skip
        kept["digest"][0] ^= np.uint64(1)
        restored = other.restore(kept)
        assert not restored.exact
        assert "gave other observations, rewards or endings" in restored.reason
        assert (other.snapshot()["episode"] == 1).all()
        assert restored.step.fresh.all()


def test_an_episode_is_the_one_its_seed_gives_and_a_reset_begins_the_next() -> None:
    settings = wanted(size=(20, 20))
    with AleEngine(settings, 2, 11) as engine:
        first = dump(engine.reset())
        second = dump(engine.reset())
        assert first != second
        assert dump(engine.reset(episode=0)) == first
        env = make_env(settings)
        obs, _ = env.reset(seed=episode_seed(11, 1, 0))
        assert np.abs(obs.astype(int) - engine.reset(episode=0).obs[1]).max() <= GREY_LEVELS
    with AleEngine(settings, 2, 11, evaluation=True) as other:
        assert dump(other.reset()) != first


def test_the_native_engine_says_what_it_cannot_do() -> None:
    assert unsupported_reason(EnvSettings(id="CartPole-v1")) == "CartPole-v1 is no Atari game"
    assert "needs the wrapper 'atari'" in unsupported_reason(EnvSettings(id="ALE/Pong-v5"))
    assert unsupported_reason(wanted(kwargs={"mode": 1})) == "env.kwargs: 'mode' is not known to it"
    with pytest.raises(UserError, match="engine: ale cannot run this recipe"):
        AleEngine(EnvSettings(id="CartPole-v1"), 1, 0)


def test_areas_are_averaged() -> None:
    # 4 -> 2: plain means of pairs; 3 -> 2: each new pixel covers one and a half.
    assert shrink(np.array([[0, 10, 20, 31]] * 2, np.uint8), (2, 2)).tolist() == [[5, 26], [5, 26]]
    assert shrink(np.array([[30, 60, 90]], np.uint8), (1, 2)).tolist() == [[40, 80]]
    assert (shrink(np.full((210, 160, 3), 77, np.uint8), (84, 84)) == 77).all()


def test_the_limit_is_the_registered_one_in_decisions() -> None:
    assert time_limit(EnvSettings(id="ALE/Pong-v5")) == 27_000
    assert time_limit(EnvSettings(id="PongNoFrameskip-v4")) == 108_000
    assert time_limit(wanted().model_copy(update={"max_episode_steps": 5})) == 5


def test_every_value_is_in_the_record_of_the_stack() -> None:
    record = make_env(wanted("Pong"))._saved_kwargs
    assert set(record) == {*PictureSettings.model_fields, "full_action_space"}
    assert (record["frameskip"], record["repeat_action_probability"], record["size"]) == (4, 0.0, (84, 84))
