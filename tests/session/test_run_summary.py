"""What is said of a run before its first update."""

import pytest

from gymlab.core.clock import Clock
from gymlab.recipes.resolve import resolve
from gymlab.session.build import build
from gymlab.session.run_summary import summarize_run


@pytest.fixture(scope="module")
def summary_of():
    def summarize(*overrides, env="CartPole-v1", full_budget=False, trackers=(), notes=()):
        parts = build(resolve(f"{env}:ppo", list(overrides)).recipe, seed=3)
        parts.full_budget = full_budget
        parts.trackers = trackers
        try:
            return summarize_run(parts, [*notes, *parts.notes], Clock()).lines()
        finally:
            parts.program.close()

    return summarize


def test_the_header_says_what_is_trained_where_how_and_until_when(summary_of):
    assert summary_of("budget=2048 env_steps") == [
        "CartPole-v1:ppo · jax engine (evaluated on Gymnasium) · cpu · 8x32 (14.3 kB) · 2.048k env_steps · seed 3 · "
        "stops at 500"
    ]


def test_the_header_names_trackers_and_a_budget_that_is_used_up(summary_of):
    (header,) = summary_of("budget=2048 env_steps", full_budget=True, trackers=("tensorboard", "wandb project p"))
    assert header.endswith(" · seed 3 · uses the whole budget · tensorboard · wandb project p")


def test_notes_say_what_differs_from_the_recipe(summary_of):
    overrides = ["budget=2000 env_steps", "engine=gymnasium", "vectorization=sync"]
    header, *notes = summary_of(*overrides, notes=["seeds count from 0"])
    assert "gymnasium engine · cpu" in header
    assert notes == [
        "note: seeds count from 0",
        "note: gymnasium engine: asked for; sync: asked for",
        "note: the budget ends at 2048 env_steps: updates are whole",
    ]


def test_shaping_with_another_discount_is_noted(summary_of):
    def notes(gamma):
        overrides = [f"env.wrappers=[{{cartpole_centring: {{gamma: {gamma}}}}}]", "ppo.gamma=0.98"]
        return [line for line in summary_of(*overrides) if "shapes rewards" in line]

    (note,) = notes(0.5)
    assert "Centring shapes rewards with gamma 0.5, ppo.gamma is 0.98" in note
    assert notes(0.98) == []


def test_a_normalised_advantage_is_said_to_be_a_baseline():
    def notes(*overrides):
        parts = build(resolve("CartPole-v1:reinforce", ["baseline=none", *overrides]).recipe, seed=0)
        parts.program.close()
        return [note for note in parts.notes if "is a baseline too" in note]

    assert len(notes("normalize_advantage=true")) == 1
    assert notes("normalize_advantage=false") == []
