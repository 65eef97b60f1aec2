"""Object features of Pong and Breakout: what they say is what the picture shows, in every frame."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.games.atari.emulator import noop_count
from gymlab.envs.games.atari.objects import _between
from gymlab.envs.make import make_env
from gymlab.envs.settings import EnvSettings
from tests.stepping import actions, play

pytest.importorskip("ale_py", reason="pip install 'gymlab[atari]'")

PONG, BREAKOUT = "ALE/Pong-v5", "ALE/Breakout-v5"
UP, DOWN, UP_FIRE, DOWN_FIRE = 2, 3, 4, 5  # of Pong's six actions
RED = (200, 72, 72)
# Per object: its colour, and the rows and columns in which nothing else has it.
COLOURS = {
    PONG: {
        "player": ((92, 186, 92), slice(34, 194), slice(136, 148)),
        "enemy": ((213, 130, 74), slice(34, 194), slice(12, 24)),
        "ball": ((236, 236, 236), slice(34, 194), slice(0, 160)),
    },
    BREAKOUT: {"paddle": (RED, slice(189, 193), slice(8, 152)), "ball": (RED, slice(93, 189), slice(8, 152))},
}
EXTENT = {"player": (4, 16), "enemy": (4, 16), "ball": (2, 4), "paddle": (16, 4)}  # width, height


def made(game: str, **given: Any) -> Any:
    return make_env(EnvSettings(id=game, wrappers=({"objects": given},)), render_mode="rgb_array")


def follow(env: Any, rng: np.random.Generator) -> int:
    """Keeps the ball in play most of the time, so that it is seen everywhere."""
    spots = dict(zip([seen.name for seen in env.game.objects], env.positions(), strict=True))
    if rng.random() < 0.2 or spots["ball"] is None:
        return int(rng.integers(env.action_space.n))
    if "paddle" in spots:
        return 1 if spots["ball"][0] > spots["paddle"][0] + 6 else 2
    return DOWN if spots["player"] is None or spots["ball"][1] > spots["player"][1] + 6 else UP


def in_picture(picture: np.ndarray, game: str, name: str) -> tuple[int, int] | None:
    colour, rows, columns = COLOURS[game][name]
    found = np.argwhere((picture[rows, columns] == colour).all(-1))
    return None if len(found) == 0 else (found[:, 1].min() + columns.start, found[:, 0].min() + rows.start)


@pytest.mark.parametrize("game", [PONG, BREAKOUT])
def test_positions_are_within_two_pixels_of_what_the_picture_shows(game: str) -> None:
    env, rng = made(game), np.random.default_rng(0)
    env.reset(seed=1)
    compared = dict.fromkeys(COLOURS[game], 0)
    for _ in range(500):
        _, _, terminated, truncated, _ = env.step(follow(env, rng))
        if terminated or truncated:
            env.reset()
        picture, ball = env.render(), env.positions()[-1]
        for seen, spot in zip(env.game.objects, env.positions(), strict=True):
            shown = in_picture(picture, game, seen.name)
            _, rows, columns = COLOURS[game][seen.name]
            if shown is None or spot is None:
                continue  # drawn every other frame, or not drawn before the first serve
            if seen.name == "paddle" and ball is not None and ball[1] > 180:
                continue  # a falling ball beside it has its colour
            # What sticks out of the field is not drawn.
            expected = max(spot[0], columns.start), max(spot[1], rows.start)
            wide = EXTENT[seen.name]
            if spot[1] > rows.stop - 2 or spot[0] + wide[0] <= columns.start:
                continue
            for axis in seen.axes:
                i = "xy".index(axis)
                assert abs(shown[i] - expected[i]) <= 2, (seen.name, shown, spot)
            compared[seen.name] += 1
    assert min(compared.values()) > 250, compared


@pytest.mark.parametrize("game", [PONG, BREAKOUT])
def test_nothing_that_is_played_leaves_the_space_or_fails(game: str) -> None:
    # 2,500 decisions of four frames; an object that is not there says so and is nowhere.
    env, rng = made(game), np.random.default_rng(1)
    obs, _ = env.reset(seed=0)
    names, missing = list(env.names), 0
    for t in range(2_500):
        obs, _, terminated, truncated, _ = env.step(
            rng.integers(env.action_space.n) if t % 1000 < 500 else follow(env, rng)
        )
        assert env.observation_space.contains(obs)
        assert obs[-env.action_space.n :].sum() == 1.0
        for seen in env.game.objects:
            if not obs[names.index(f"{seen.name}_visible")]:
                missing += 1
                assert not any(obs[names.index(f"{seen.name}_{axis}")] for axis in seen.axes)
                assert not any(obs[names.index(f"{seen.name}_v{axis}")] for axis in seen.axes)
        if terminated or truncated:
            env.reset()
    assert missing > 30


def test_memory_of_any_content_is_read_without_an_error() -> None:
    for game in (PONG, BREAKOUT):
        reads = [seen.read for seen in made(game).game.objects]
        rng = np.random.default_rng(2)
        for ram in (np.zeros(128, np.uint8), np.full(128, 255, np.uint8), *rng.integers(0, 256, (50, 128), np.uint8)):
            assert all(spot is None or len(spot) == 2 for spot in (read(ram) for read in reads))


def test_velocities_are_the_way_since_the_last_decision() -> None:
    env = made(PONG, repeat_action_probability=0.0)
    names, seen, checked = list(env.names), [], 0
    env.reset(seed=3)
    for t in range(300):
        obs, *_ = env.step((0, UP, DOWN)[t // 7 % 3])
        seen.append((env.positions()[2], obs[names.index("ball_vx")], obs[names.index("ball_vy")]))
    for (before, *_), (now, vx, vy) in pairwise(seen):
        if before is not None and now is not None and abs(now[0] - before[0]) < 16:
            assert np.allclose([vx, vy], [(now[0] - before[0]) / 16, (now[1] - before[1]) / 16])
            checked += 1
    assert checked > 100


@pytest.mark.parametrize("game", [PONG, BREAKOUT])
def test_a_paddle_is_never_faster_than_what_counts_as_one(game: str) -> None:
    env, ways = made(game, repeat_action_probability=0.0), []
    env.reset(seed=0)
    i = "xy".index(env.game.objects[0].axes)
    for t in range(200):
        before = env.positions()[0]
        env.step(env.action_space.n // 3 + t // 10 % 2)
        now = env.positions()[0]
        if before is not None and now is not None:
            ways.append(abs(now[i] - before[i]))
    assert 20 < max(ways) <= env.game.objects[0].fastest  # cut off at 1, its quickest moves would all look the same


def told(env: Any, names: list[str], before: list[Any], now: list[Any]) -> list[float]:
    env._before, env._now = before, now
    obs = env._observe(0)
    return [float(obs[env.names.index(name)]) for name in names]


def test_the_ball_is_so_far_from_the_middle_of_each_paddle() -> None:
    env = made(PONG)
    env.reset(seed=0)
    assert all(seen.extent == EXTENT[seen.name] for seen in env.game.objects)

    def apart(*spots: tuple[float, float] | None) -> list[float]:
        return told(env, ["ball_from_player", "ball_from_enemy"], list(spots), list(spots))

    # Rows of the middles: the ball's 110 + 2, the player's 100 + 8, the enemy's 50 + 8, which is too far for the scale.
    assert apart((140, 100), (16, 50), (80, 110)) == pytest.approx([4 / 24, 1.0])
    assert apart((140, 120), (16, 104), (80, 110)) == pytest.approx([-16 / 24, 0.0])
    assert apart((140, 120), None, (80, 110)) == pytest.approx([-16 / 24, 0.0])
    assert apart((140, 120), (16, 100), None) == [0.0, 0.0]


def test_where_and_when_the_ball_will_be_at_a_paddle() -> None:
    env = made(PONG)
    env.reset(seed=0)
    player, enemy = (140.0, 100.0), (16.0, 50.0)

    def ahead(paddle: str, before: Any, ball: Any) -> list[float]:
        names = [f"ball_meets_{paddle}", f"ball_reaches_{paddle}"]
        return told(env, names, [player, enemy, before], [player, enemy, ball])

    # 24 columns to 138, where a ball 2 wide touches the player: 3 decisions of 8; rows 110 - 3 x 2 + 2 against 100 + 8.
    assert ahead("player", (106, 112), (114, 110)) == pytest.approx([-2 / 24, 3 / 8])
    # It would be at row 196 but for the wall at 192: 188, 82 below the paddle's middle, more than the scale has.
    assert ahead("player", (106, 164), (114, 172)) == pytest.approx([1.0, 3 / 8])
    # From the player to the enemy, whose right edge is at 20: 7 decisions, rows 59 - 7 + 2 against 50 + 8.
    assert ahead("player", (52, 60), (48, 59)) == [0.0, 1.0]
    assert ahead("enemy", (52, 60), (48, 59)) == pytest.approx([-4 / 24, 7 / 8])
    assert ahead("player", (140, 60), (144, 59)) == [0.0, 1.0]  # gone by
    assert ahead("player", None, (114, 110)) == ahead("player", (114, 100), (114, 110)) == [0.0, 1.0]


def test_edges_tell_to_the_pixel_where_on_the_paddle_the_ball_will_be() -> None:
    env = made(PONG, edges=True)
    env.reset(seed=0)
    names = [f"ball_{what}_{where}" for where in ("player", "stop") for what in ("on", "beyond")]
    assert env.observation_space.shape == (made(PONG).observation_space.shape[0] + 4,)

    def edges(turned: float, before: Any, ball: Any, player: Any = (140.0, 104.0)) -> list[float]:
        env._turned = turned
        return told(env, names, [player, None, before], [player, None, ball])

    # In 3 decisions the ball is at column 139, a pixel into the paddle, its middle in row 110 - 3 x 2 + 2 = 106. The
    # paddle's middle is in row 112 now; with the wheel in its middle it will stop 8 higher. 10 rows are still a hit.
    assert edges(0.0, (107, 112), (115, 110)) == pytest.approx([-6 / 10, -1.0, 2 / 10, -1.0])
    # Two frames further it will stop 11.44 lower: the ball passes 9.44 above its middle, just on it; then not.
    assert edges(2.0, (107, 112), (115, 110)) == pytest.approx([-6 / 10, -1.0, -9.44 / 10, -0.56 / 4])
    assert edges(2.2, (107, 112), (115, 110))[2:] == pytest.approx([-1.0, (10.584 - 10) / 4])
    assert edges(0.0, (115, 112), (107, 110)) == edges(0.0, None, (107, 110)) == [0.0] * 4  # away; just there
    assert edges(0.0, (107, 112), (115, 110), player=None) == [0.0] * 4


def test_a_ball_is_hit_where_it_is_not_beyond_an_edge() -> None:
    env, rng, hits, misses = made(PONG, edges=True, repeat_action_probability=0.0), np.random.default_rng(0), [], []
    soon, on, beyond = (env.names.index(f"ball_{name}") for name in ("reaches_player", "on_stop", "beyond_player"))
    (obs, _), said, aim = env.reset(seed=0), None, 0.0
    for _ in range(6_000):
        off = obs[on] * 10 - aim
        still = not 2 < obs[soon] * 8 < 8 or abs(off) < 4
        obs, _, terminated, truncated, _ = env.step(0 if still else DOWN if off > 0 else UP)
        if obs[soon] < 1:
            said = obs[beyond] * 4
        elif said is not None:  # it was there: has it passed the paddle, or does it fly back?
            ball, back = env.positions()[-1], obs[env.names.index("ball_vx")] < 0
            if ball is None or ball[0] > 144 or back:
                (hits if back else misses).append(float(said))
                said, aim = None, float(rng.uniform(-14, 14))
        if terminated or truncated:
            (obs, _), said = env.reset(), None
    assert min(len(hits), len(misses)) > 30
    assert min(misses) >= 0
    assert sum(said > 0 for said in hits) <= 0.1 * len(hits)  # a steep ball may still meet the paddle's side


@pytest.mark.parametrize(("y", "found"), [(100, 100), (31, 31), (20, 42), (192, 192), (200, 184), (-140, 182)])
def test_walls_throw_the_ball_back(y: float, found: float) -> None:
    assert _between(y, 31, 192) == found  # -140: 171 past the upper wall, of which 161 lead to the lower one


@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_the_paddle_stops_where_the_wheel_says(sticky: float) -> None:
    # Also where sticky actions turn the wheel longer than was asked for, and after it was turned to its ends.
    env, rng, stops = made(PONG, repeat_action_probability=sticky), np.random.default_rng(0), []
    env.reset(seed=0)
    lag = env.names.index("player_lag")
    for _ in range(60):
        action, decisions = int(rng.choice([UP, DOWN])), int(rng.integers(1, 9))
        for moves in (decisions, 12):
            for _ in range(moves):
                obs, _, terminated, truncated, _ = env.step(action if moves == decisions else 0)
                if terminated or truncated:
                    env.reset()
        y = env.positions()[0]
        if y is not None and abs(obs[env.names.index("wheel")]) < 0.7:  # beyond, the paddle is at the screen's edge
            stops.append(abs(obs[lag]) * 24)
    assert len(stops) > 15
    assert max(stops) < 3, stops


def test_fire_makes_a_ball_faster_that_is_hit() -> None:
    def fastest(actions: tuple[int, int, int]) -> float:
        env, speeds = made(PONG, repeat_action_probability=0.0), [0.0]
        env.reset(seed=0)
        for _ in range(600):
            player, _, ball = env.positions()
            still = ball is None or player is None
            env.step(actions[0] if still else actions[1] if ball[1] < player[1] + 6 else actions[2])
            before, now = env._before[2], env._now[2]
            if before is not None and now is not None:
                speeds.append(abs(now[0] - before[0]))
        return max(speeds)

    assert fastest((0, UP, DOWN)) == 4
    assert fastest((0, UP_FIRE, DOWN_FIRE)) > 4


def test_the_actions_move_the_paddle_as_they_are_called() -> None:
    env = made(PONG, repeat_action_probability=0.0)
    assert env.action_labels == ("stay", "fire", "up", "down", "up and fire", "down and fire")
    env.reset(seed=0)
    height = []
    for action in (UP, DOWN):
        for _ in range(30):
            env.step(action)
        height.append(env.positions()[0][1])
    assert height[0] < height[1]  # rows are counted from above
    env = made(BREAKOUT, repeat_action_probability=0.0)
    env.reset(seed=0)
    place = []
    for action in (1, 2):
        for _ in range(40):
            env.step(action)
        place.append(env.positions()[0][0])
    assert place[0] > place[1]


def test_breakout_serves_by_itself() -> None:
    env = made(BREAKOUT, fire_reset=False, noop_max=0, repeat_action_probability=0.0)
    env.reset(seed=0)
    assert env.positions()[1] is None
    for _ in range(10):
        env.step(0)
    assert env.positions()[1] is not None


def test_an_episode_is_a_function_of_its_seed_and_actions_however_sticky() -> None:
    settings = EnvSettings(id=PONG, wrappers=("objects",))
    with GymnasiumEngine(settings, 1, 5) as engine, GymnasiumEngine(settings, 1, 5) as other:
        engine.reset()
        engine.reset()  # the second episode: nothing of the first one may matter
        moves = actions(engine, 150)
        play(engine, moves[:100])
        kept = engine.snapshot()
        then = play(engine, moves[100:])
        restored = other.restore(kept)
        assert restored.exact, restored.reason
        assert play(other, moves[100:]) == then


def test_sticky_actions_are_off_where_the_recipe_says_so() -> None:
    def trace(seed: int, sticky: float) -> bytes:
        env = made(PONG, repeat_action_probability=sticky, noop_max=0)
        env.reset(seed=seed)
        return np.stack([env.step(t // 3 % 3)[0] for t in range(60)]).tobytes()

    assert trace(1, 0.0) == trace(2, 0.0)
    assert len({trace(1, 0.25), trace(2, 0.25), trace(1, 0.0)}) == 3
    assert trace(1, 0.25) == trace(1, 0.25)


@pytest.mark.parametrize("evaluation", [False, True])
def test_a_point_ends_what_is_bootstrapped_over_and_the_game_goes_on(evaluation: bool) -> None:
    settings = EnvSettings(id=PONG, wrappers=({"objects": {"episodic_point": True}},))
    points = {"in play": 0, "last": 0}
    with GymnasiumEngine(settings, 1, 0, evaluation=evaluation) as engine:
        engine.reset()
        while not points["last"]:
            step = engine.step(np.zeros(1, np.int64))  # nobody at the paddle: every point is lost
            over = bool(step.fresh[0])
            assert step.terminated[0] == (over or (not evaluation and step.reward[0] == -1))
            points["last" if over else "in play"] += int(step.reward[0] == -1)
    assert points == {"in play": 20, "last": 1}


def test_lives_and_points_each_end_what_they_are_told_to() -> None:
    def parts(**given: bool) -> tuple[set[float], int]:
        env = made(BREAKOUT, **given)
        env.reset(seed=1)
        rng, paid, lives, lost = np.random.default_rng(0), set(), 5, 0
        while lives > 2:
            _, reward, _, _, info = env.step(follow(env, rng))
            if info["part_over"]:
                paid.add(float(reward) > 0)
                lost += info["lives"] < lives
            lives = info["lives"]
        return paid, lost

    assert parts(episodic_point=True, episodic_life=True) == ({True, False}, 3)
    assert parts(episodic_point=True) == ({True}, 0)
    assert parts(episodic_life=True) == ({False}, 3)


def test_every_value_is_in_the_record_of_the_stack() -> None:
    record = made(PONG, repeat_action_probability=0.0)._saved_kwargs
    assert record == {
        "frameskip": 4, "repeat_action_probability": 0.0, "noop_max": 30, "fire_reset": True, "episodic_life": False,
        "episodic_point": False, "edges": False, "full_action_space": False,
    }  # fmt: skip
    assert made(PONG)._saved_kwargs["repeat_action_probability"] == 0.25  # as registered
    old = made("PongNoFrameskip-v4")._saved_kwargs
    assert (old["frameskip"], old["repeat_action_probability"]) == (4, 0.0)


def test_starts_are_spread_over_the_idle_frames() -> None:
    counts = [noop_count(seed, 30) for seed in range(300)]
    assert (min(counts), max(counts)) == (0, 29)
    assert noop_count(5, 0) == 0


def test_what_cannot_be_done_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match="edges: true: 'breakout' has none that are known"):
        made(BREAKOUT, edges=True)
    with pytest.raises(UserError, match="unknown argument 'stickyness'"):
        made(PONG, stickyness=1)
    with pytest.raises(UserError, match=r"repeat_action_probability=1.5: Input should be less than 1"):
        made(PONG, repeat_action_probability=1.5)
    with pytest.raises(UserError, match="does not know the memory of 'seaquest': choose one of: breakout, pong"):
        made("ALE/Seaquest-v5")
    with pytest.raises(UserError, match="needs an ALE game"):
        made("CartPole-v1")


@pytest.mark.parametrize("inside", [{"frame_skip": 2}, {"sticky_actions": 0.1}, "atari"])
def test_what_it_would_play_past_is_refused(inside: object) -> None:
    with pytest.raises(UserError, match=r"plays the game itself, and \w+ inside it would not be called: put it first"):
        make_env(EnvSettings(id="ALE/Pong-v5", wrappers=(inside, "objects")))
    make_env(EnvSettings(id="ALE/Pong-v5", wrappers=("objects", {"frame_skip": 2})))


def test_sticky_actions_around_a_game_come_back_exactly() -> None:
    # The game below is not seeded anew by a reset, so that the wrapper must throw dice of its own.
    settings = EnvSettings(id=PONG, wrappers=("objects", {"sticky_actions": 0.5}), max_episode_steps=6)
    with GymnasiumEngine(settings, 2, 5) as engine, GymnasiumEngine(settings, 2, 5) as other:
        engine.reset()
        moves = actions(engine, 40)
        play(engine, moves[:15])
        restored = other.restore(engine.snapshot())
        assert restored.exact, restored.reason
        assert play(engine, moves[15:]) == play(other, moves[15:])
