"""The playground's games and sliders."""

import pytest

from gymlab.recipes.resolve import resolve
from gymlab.web.playground.games_and_sliders import GAMES, sliders

pytestmark = pytest.mark.fast


def test_a_slider_begins_at_its_value_reaches_0_and_goes_by_powers_of_ten_for_the_learning_rate():
    found = {slider.name: slider for slider in sliders({"learning_rate": 1e-3, "gamma": 0.99, "entropy_coef": 0.01})}
    for slider in found.values():
        assert slider.at(slider.place(slider.value)) == pytest.approx(slider.value, rel=1e-3)
        assert slider.at(0.0) == 0.0
        assert slider.help
    rate = found["learning_rate"]
    assert rate.at(0.8) == pytest.approx(10 * rate.at(0.6))
    assert found["gamma"].at(1.0) == 1.0


@pytest.mark.parametrize("game", GAMES)
def test_every_game_of_the_list_is_compiled_and_its_numbers_have_sliders(game):
    recipe = resolve(GAMES[game].recipe, GAMES[game].overrides).recipe
    from gymlab.envs.ports.registry import PORTS

    assert recipe.env.id in PORTS
    assert {"learning_rate", "gamma"} <= set(recipe.algorithm.settings.schedules())
