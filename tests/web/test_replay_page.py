"""The replay page in a real browser: no error, no request, and a policy that balances by itself."""

import time

import gymnasium
import numpy as np
import pytest

from gymlab.media.replay_page import LIVE, page_html


@pytest.fixture
def opened(chrome, tmp_path):
    """Opens a page's text; at the end nothing was complained about, and nothing asked for."""
    troubles, requests, contexts = [], [], []

    def open_page(text, scheme="light"):
        file = tmp_path / "page.html"
        file.write_text(text, encoding="utf-8")
        contexts.append(chrome.new_context(color_scheme=scheme, offline=True))
        tab = contexts[-1].new_page()
        tab.on("console", lambda told: troubles.append(told.text) if told.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(file.as_uri())
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []
    assert [url for url in requests if not url.startswith(("file:", "blob:", "data:"))] == []


def wait_until(tab, condition, seconds=120):
    """Asked from outside: the page's own policy allows no eval."""
    deadline = time.monotonic() + seconds
    while not tab.evaluate(condition):
        assert time.monotonic() < deadline, condition
        tab.wait_for_timeout(20)


@pytest.fixture(scope="module")
def exported(solved_run, tmp_path_factory):
    from gymlab.media.replay_page import export_html

    target = tmp_path_factory.mktemp("page") / "replay.html"
    told = export_html(solved_run, "best", target)
    assert "live" in told[-1]
    return target.read_text(encoding="utf-8")


def test_episodes_play_pause_and_step_with_their_numbers(opened, exported):
    tab = opened(exported)
    wait_until(tab, "document.getElementById('film').readyState >= 2")
    assert tab.evaluate("document.getElementById('film').error") is None
    assert tab.inner_text("#now").split()[1] == "0"
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowUp")
    assert tab.evaluate("page.replay.step()") == 11
    assert "11 / 500" in tab.inner_text("#now")
    assert tab.locator("#bars .bar").count() == 2
    wait_until(tab, "Math.abs(document.getElementById('film').currentTime - 5.5 / 25) < 0.02")
    tab.keyboard.press("Space")
    wait_until(tab, "page.replay.step() > 20")
    tab.keyboard.press("Space")
    stopped = tab.evaluate("page.replay.step()")
    tab.evaluate("page.replay.choose(1)")
    assert tab.evaluate("page.replay.step()") == 0
    assert stopped > 20


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_trained_cart_balances_in_the_page_for_500_steps(opened, exported, scheme):
    tab = opened(exported, scheme)
    results = tab.evaluate("[1, 2, 3, 4].map(() => page.live.simulate(500))")
    assert [result["steps"] for result in results] == [500] * 4
    assert tab.evaluate("page.live.simulate(500, {force: 0.01}).steps") < 200  # the sliders reach the physics
    wait_until(tab, "page.live.steps() > 5")
    speed = tab.evaluate("page.live.state()[1]")
    tab.evaluate("document.getElementById('live-play').click(); document.getElementById('push-right').click()")
    assert tab.evaluate("page.live.state()[1]") > speed + 0.3
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 26)"
    assert dark == (scheme == "dark")


def test_the_pages_network_decides_as_the_checkpoint_does(opened, exported, solved_run):
    from gymlab.media.episode_trace import read_csv
    from gymlab.runs.videos import best_clip, table_path

    rows = read_csv(table_path(solved_run, best_clip(solved_run).env_steps))[:50]
    tab = opened(exported)
    told = tab.evaluate(
        "(all) => all.map((obs) => gymlab.decide(data.live, obs))", [row["observation"] for row in rows]
    )
    for row, mine in zip(rows, told, strict=True):
        assert mine["probabilities"] == pytest.approx(row["probabilities"], abs=1e-4)
        assert mine["value"] == pytest.approx(row["value"], rel=1e-4)


def test_the_pages_physics_are_gymnasiums(opened, exported):
    tab = opened(exported)
    for name in LIVE[1:]:
        env = gymnasium.make(name)
        env.reset(seed=1)
        env.action_space.seed(2)
        actions = [np.asarray(env.action_space.sample()).tolist() for _ in range(40)]
        start = np.array(env.unwrapped.state, float).tolist()
        true, ends = [], []
        for action in actions:
            given = np.array(action, np.float32) if isinstance(action, list) else action
            _, reward, terminated, *_ = env.step(given)
            true.append([*map(float, env.unwrapped.state), float(reward)])
            ends.append(bool(terminated))
            if terminated:
                break
        env.close()
        told = tab.evaluate(
            """([name, state, actions]) => actions.map((action) => {
                const world = gymlab.worlds[name], step = world.step(state, action, gymlab.defaults(world));
                state = step.state;
                return { numbers: [...state, step.reward], ended: step.ended };
            })""",
            [name, start, actions[: len(true)]],
        )
        assert [step["ended"] for step in told] == ends, name
        np.testing.assert_allclose([step["numbers"] for step in told], true, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_name_cannot_break_out_of_the_page(opened):
    bad = "</script><script>window.broken = true</script><img src=x onerror='window.broken = true'>"
    tab = opened(page_html({"id": bad, "recipe": bad, "seed": 0, "result": bad}, [], None))
    assert tab.inner_text("#title") == bad
    assert tab.evaluate("window.broken") is None
