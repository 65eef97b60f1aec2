"""Settings that nothing in a run reads."""

from typing import Any

import pytest
from gymnasium import spaces

from gymlab.core.settings import ReadWhen
from gymlab.core.types import Spaces
from gymlab.recipes.resolve import resolve
from gymlab.recipes.schema import BLOCKS, Recipe
from gymlab.session.build import build
from gymlab.session.unread_settings import CONDITIONS, unread_settings_note

pytestmark = pytest.mark.fast

VECTOR = spaces.Box(-1, 1, (4,))
PICTURE = spaces.Box(0, 255, (84, 84, 4), "uint8")
CHOICE = spaces.Discrete(4)
BOX_ACTION = spaces.Box(-1, 1, (2,))


def note_of(
    *overrides: str,
    recipe: str = "CartPole-v1:ppo",
    observation: Any = VECTOR,
    action: Any = CHOICE,
    engine: str = "jax",
) -> str:
    found = resolve(recipe, ["normalize.clip=10", *overrides]).recipe
    return unread_settings_note(found, Spaces(observation, action, False, 100), engine) or ""


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # setting: (what is written, where it is not read, where it is)
    "normalize.obs": ("normalize.obs=true", {"observation": CHOICE}, {"observation": VECTOR}),
    "policy.activation": (
        "policy={hidden: [], activation: relu}",
        {"observation": PICTURE},
        {"more": ["policy.hidden=[8]"]},
    ),
    "policy.exploration": ("policy.exploration=gsde", {}, {"action": BOX_ACTION}),
    "policy.log_std_init": ("policy.log_std_init=-1", {}, {"action": BOX_ACTION}),
    "policy.gsde_every": (
        "policy.gsde_every=8",
        {"action": BOX_ACTION},
        {"action": BOX_ACTION, "more": ["policy.exploration=gsde"]},
    ),
    "policy.value_hidden": ("policy.value_hidden=[8]", {"more": ["policy.shared=true"]}, {}),
    "workers": ("workers=2", {}, {"engine": "gymnasium"}),
    "env.timeout": ("env.timeout=5", {}, {"engine": "gymnasium"}),
    "normalize.clip": ("normalize.clip=5", {}, {"more": ["normalize.reward=true"]}),
    "ppo.optimizer_eps": ("optimizer_eps=1e-3", {"more": ["optimizer=sgd"]}, {}),
    "ppo.on_lr_change": ("on_lr_change=reset_moments", {"more": ["optimizer=sgd"]}, {}),
    "reinforce.value_coef": (
        "value_coef=0.3",
        {"recipe": "CartPole-v1:reinforce", "more": ["baseline=none"]},
        {"recipe": "CartPole-v1:reinforce"},
    ),
}


@pytest.mark.parametrize("key", CASES)
def test_a_setting_is_named_where_nothing_reads_it_and_only_there(key):
    written, unread, read = CASES[key]
    here = note_of(written, *unread.get("more", ()), **{k: v for k, v in unread.items() if k != "more"})
    assert here.startswith("nothing in this run reads ")
    assert here.count(f"{key} (") == 1
    there = note_of(written, *read.get("more", ()), **{k: v for k, v in read.items() if k != "more"})
    assert f"{key} (" not in there


def test_defaults_are_not_named():
    assert note_of() == ""
    assert note_of(observation=PICTURE) == ""


def test_what_evaluation_reads_is_not_named():
    assert note_of("env.on_error=restart") == ""  # evaluation's envs are Gymnasium's on every engine


def test_clip_is_unread_where_only_pictures_are_normalised():
    assert "normalize.clip" in note_of("normalize={obs: true, clip: 5}", observation=PICTURE)


def test_every_declared_condition_is_known_and_used():
    from gymlab.algorithms.registry import ALGORITHMS

    models = [Recipe, *BLOCKS.values(), *(algorithm.Settings for algorithm in ALGORITHMS.values())]
    declared = {
        item.condition
        for model in models
        for info in model.model_fields.values()
        for item in info.metadata
        if isinstance(item, ReadWhen)
    }
    assert declared == set(CONDITIONS)


def test_a_run_says_it_once_when_it_starts():
    parts = build(resolve("CartPole-v1:ppo", ["policy.log_std_init=-1", "policy.exploration=gsde"]).recipe, seed=0)
    parts.program.close()
    (note,) = (note for note in parts.notes if "nothing in this run reads" in note)
    assert "policy.exploration (actions are discrete)" in note
    assert "policy.log_std_init (actions are discrete)" in note
