"""Entries of a Dict observation that a policy is not shown: text by itself, others by `drop_keys` and `keep_keys`."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.envs.check import check_env
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.processes import ProcessEngine
from gymlab.envs.make import make_env
from gymlab.envs.settings import EnvSettings
from gymlab.envs.wrapper_stacks import wrapper_stacks

ID = "tests.envs.test_drop_keys:Told"
ENGINES = pytest.mark.parametrize("make", [GymnasiumEngine, ProcessEngine])


class Told(gymnasium.Env):
    """Says in words what it shows in numbers."""

    observation_space = spaces.Dict(
        {
            "mission": spaces.Text(20),
            "image": spaces.Box(0, 255, (2, 3), np.uint8),
            "inner": spaces.Dict({"way": spaces.Discrete(4), "met": spaces.Sequence(spaces.Discrete(2))}),
        }
    )
    action_space = spaces.Discrete(2)

    def _see(self):
        image = np.full((2, 3), self._t, np.uint8)
        return {"mission": "left", "image": image, "inner": {"way": self._t % 4, "met": ()}}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._t = 0
        return self._see(), {}

    def step(self, action):
        self._t += 1
        return self._see(), 1.0, self._t >= 6, False, {}


class OnlyTold(Told):
    observation_space = spaces.Dict({"mission": spaces.Text(20)})

    def _see(self):
        return {"mission": "left"}


@ENGINES
def test_what_cannot_be_shown_is_left_out_and_named(make):
    settings = EnvSettings(id=ID)
    with make(settings, 2, 3) as engine:
        assert sorted(engine.spaces.observation) == ["image", "inner"]
        assert list(engine.spaces.observation["inner"]) == ["way"]
        engine.reset()
        step = engine.step(np.zeros(2, int))
        assert step.obs["image"].tolist() == np.ones((2, 2, 3)).tolist()
        assert step.obs["inner"]["way"].tolist() == [1, 1]
    assert wrapper_stacks(settings).notes == [
        "not shown to the policy: observation keys inner.met (Sequence), mission (Text)"
    ]


@ENGINES
def test_an_observation_of_text_alone_is_refused_by_its_key(make):
    with pytest.raises(
        UserError, match=r"observation\['mission'\]: observation space Text.* is not supported: use Box"
    ):
        make(EnvSettings(id="tests.envs.test_drop_keys:OnlyTold"), 1, 3)


@pytest.mark.parametrize(
    "wrapper",
    [
        {"drop_keys": ["mission", "inner"]},
        {"keep_keys": ["image"]},
        {"keep_keys": "image"},
    ],
)
@ENGINES
def test_keys_are_dropped_and_kept_by_name(wrapper, make):
    settings = EnvSettings(id=ID, wrappers=(wrapper,))
    with make(settings, 1, 3) as engine:
        assert list(engine.reset().obs) == ["image"]
    assert wrapper_stacks(settings).notes == []


@pytest.mark.fast
def test_entries_inside_a_dict_are_named_by_their_path():
    def seen(*wrappers):
        space = make_env(EnvSettings(id=ID, wrappers=wrappers)).observation_space
        return {key: list(inner) if isinstance(inner, spaces.Dict) else [] for key, inner in space.items()}

    assert seen({"keep_keys": ["inner.way", "image"]}) == {"image": [], "inner": ["way"]}
    assert seen({"drop_keys": ["inner.way"]}) == {"image": []}  # what is left of `inner` cannot be shown
    assert seen({"keep_keys": ["image", "inner", "mission"]}) == {"image": [], "inner": ["way"]}


@pytest.mark.fast
@pytest.mark.parametrize(
    ("id", "wrapper", "message"),
    [
        (ID, {"drop_keys": ["misson"]}, "no key 'misson': did you mean 'mission'"),
        (ID, {"keep_keys": ["picture"]}, "no key 'picture'"),
        (ID, {"drop_keys": []}, "name at least one of the keys"),
        (ID, {"drop_keys": ["mission", "image", "inner"]}, "leaves nothing of the observation"),
        ("CartPole-v1", {"drop_keys": ["image"]}, "it needs a Dict observation"),
    ],
)
def test_a_wrong_key_is_one_line(id, wrapper, message):
    with pytest.raises(UserError, match=message):
        make_env(EnvSettings(id=id, wrappers=(wrapper,)))


@pytest.mark.fast
def test_the_check_names_what_is_left_out_and_finds_no_error():
    results = check_env(ID)
    assert [result for result in results if result.level == "error"] == []
    assert any("mission (Text)" in result.detail for result in results)
