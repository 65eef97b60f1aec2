"""The playground in a real browser: training goes on live, and its numbers can be moved."""

import re

import pytest

from tests.waiting import wait_until
from tests.web.browsing import drawn, looking, serving

pytest.importorskip("nicegui")
STATUS = re.compile(
    r"([\d,]+) env_steps · (\d+) updates · return (\S+) · weights moved (\S+) · programs compiled (\d+)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    runs = tmp_path_factory.mktemp("playing") / "runs"
    runs.mkdir()
    with serving(runs) as site:
        yield site


def status(tab):
    """Env steps, updates, how far the weights moved, programs compiled; None before there is anything."""
    found = STATUS.fullmatch(tab.locator("[data-part=status]").text_content())
    return found and (int(found[1].replace(",", "")), int(found[2]), float(found[4]), int(found[5]))


@pytest.mark.slow
def test_a_learning_rate_of_0_freezes_the_policy_and_nothing_is_compiled_for_it(site, chrome):
    with looking(chrome, site.base) as tab:
        tab.goto(f"{site.base}/playground")
        ready = tab.locator("[data-part=status]")
        wait_until(lambda: ready.text_content() == "ready", "the first game")
        tab.locator("[data-part=game]").click()
        tab.get_by_role("option", name="Bandit").click()
        wait_until(lambda: "ten arms" in tab.text_content("body") and ready.text_content() == "ready", "the bandit")
        tab.get_by_role("button", name="Train").click()
        moving = wait_until(lambda: (s := status(tab)) and s[1] > 5 and s[2] > 0 and s, "updates")
        slider = tab.locator("[data-part=slider-learning_rate]")
        slider.click(position={"x": 1, "y": slider.bounding_box()["height"] / 2})
        wait_until(lambda: tab.locator("[data-part=value-learning_rate]").text_content() == "0", what="the slider")
        frozen = wait_until(lambda: (s := status(tab)) and s[1] > moving[1] and s[2] == 0 and s, what="the freeze")
        later = wait_until(lambda: (s := status(tab)) and s[1] > frozen[1] and s, what="more updates")
        assert later[2] == 0.0
        assert later[3] == moving[3] > 0
        assert drawn(tab, "return of the last training episodes")["series"][0]["data"]
        tab.get_by_role("button", name="Pause").click()
        tab.get_by_text("Watch an episode").click()
        wait_until(lambda: "in 20 steps" in tab.locator("[data-part=film]").text_content(), "the episode")
        tab.get_by_role("button", name="Reset").click()
        wait_until(lambda: ready.text_content() == "ready", "the reset")
