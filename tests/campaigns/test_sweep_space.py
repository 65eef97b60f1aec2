"""What a space may be, and what is said where it is wrong."""

import pytest

from gymlab.campaigns.sweep.space import check_space, grid, overrides, parse_space
from gymlab.core.errors import UserError
from gymlab.recipes.resolve import resolve

pytestmark = pytest.mark.fast


def one(text):
    return parse_space([text])[0]


def test_ranges_are_read_with_their_kind():
    rate = one("ppo.learning_rate=log:1e-5..1e-2")
    assert (rate.low, rate.high, rate.log, rate.whole) == (1e-5, 1e-2, True, False)
    epochs = one("ppo.epochs=int:1..5")
    assert (epochs.points(), epochs.whole) == ([1, 2, 3, 4, 5], True)
    share = one("ppo.gamma=0.9..0.999")
    assert (share.low, share.high, share.log) == (0.9, 0.999, False)
    assert one("n_envs=int:log:2..64").log


def test_a_range_with_points_is_a_choice_evenly_spread():
    assert one("ppo.learning_rate=log:1e-4..1e-2:3").choices == ("0.0001", "0.001", "0.01")
    assert one("ppo.learning_rate=lin_log:1e-4..1e-2:3").choices == ("lin_0.0001", "lin_0.001", "lin_0.01")
    assert one("ppo.gamma=0.9..1:3").choices == ("0.9", "0.95", "1")


def test_lists_inside_brackets_are_one_value():
    assert one("policy.hidden=[64,64],[256,256]").choices == ("[64,64]", "[256,256]")


def test_a_drawn_number_has_few_digits_and_stays_within_its_bounds():
    rate = one("ppo.learning_rate=log:0.00123456..0.01")
    assert rate.rounded(0.00123456) == 0.001235
    assert rate.rounded(0.0099999) == 0.01
    assert rate.rounded(0.00567891234) == 0.005679
    assert rate.text(0.005679) == "ppo.learning_rate=0.005679"
    assert one("ppo.learning_rate=lin_log:1e-4..1e-2").text(0.001) == "ppo.learning_rate=lin_0.001"


def test_a_grid_is_every_combination():
    space = parse_space(["ppo.epochs=4,8", "ppo.gamma=0.9,0.99,0.999"])
    found = [overrides(space, params) for params in grid(space)]
    assert len(found) == 6
    assert found[0] == ("ppo.epochs=4", "ppo.gamma=0.9")
    assert found[-1] == ("ppo.epochs=8", "ppo.gamma=0.999")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ppo.learning_rate", "a key and what it may be"),
        ("ppo.learning_rate=1e-3", "at least two values or a range"),
        ("ppo.learning_rate=log:1e-3", "a range is LOW..HIGH"),
        ("ppo.learning_rate=1e-2..1e-4", "the first number must be the smaller one"),
        ("ppo.learning_rate=log:0..1", "log: needs numbers above 0"),
        ("ppo.epochs=int:1..4.5", "int: needs whole numbers"),
        ("ppo.learning_rate=low..high", "'low' is not a number"),
    ],
)
def test_a_wrong_space_is_told_with_its_key(text, said):
    with pytest.raises(UserError, match=said) as refused:
        parse_space([text])
    assert "ppo." in str(refused.value)


def test_a_key_is_given_once():
    with pytest.raises(UserError, match="given twice"):
        parse_space(["ppo.epochs=1,2", "ppo.epochs=4,8"])


def test_an_unknown_key_names_the_nearest():
    recipe = resolve("CartPole-v1:ppo").recipe
    with pytest.raises(UserError, match="did you mean 'learning_rate'"):
        check_space(parse_space(["ppo.learning_rte=log:1e-5..1e-2"]), recipe)


def test_an_end_that_is_no_value_of_the_key_is_refused():
    recipe = resolve("CartPole-v1:ppo").recipe
    with pytest.raises(UserError, match="gamma"):
        check_space(parse_space(["ppo.gamma=0.9..1.5"]), recipe)
    check_space(parse_space(["ppo.gamma=0.9..0.99"]), recipe)


def test_values_that_only_fit_together_are_a_space():
    recipe = resolve("CartPole-v1:ppo").recipe  # 8 x 32, batches of 256
    check_space(parse_space(["n_steps=16,64", "ppo.batch_size=128,512"]), recipe)
