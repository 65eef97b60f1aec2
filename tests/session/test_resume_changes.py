"""What a resume cannot change is refused by the setting's name; what a new limit means for --full-budget is said."""

import json

import pytest

from gymlab.core.errors import UserError
from gymlab.recipes.resolve import resolve
from gymlab.runs.paths import RunPaths
from gymlab.session.session import Options
from gymlab.session.start import Continuation, NewRun, prepare, resume, train

TINY = ["n_envs=2", "n_steps=8", "policy.hidden=[4]", "metrics.statistics=basic", "eval.final_episodes=1"]
BEGIN_AGAIN = "begin again with --init-from tiny"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    recipe = resolve("CartPole-v1:a2c", [*TINY, "eval.every=100%"], budget="16").recipe
    return RunPaths(train(recipe, Options(run_id="tiny", full_budget=True), tmp_path_factory.mktemp("runs")).run_dir)


@pytest.mark.parametrize(("override", "message"), [
    ("n_envs=4", "n_envs: 2 -> 4 would need other env states"),
    ("policy.hidden=[5]", r"policy.hidden: \[4\] -> \[5\] would need another network"),
    ("policy.shared=true", "policy.shared: False -> True would need another network"),
    ("normalize.obs=true", "normalize.obs: False -> True would need statistics"),
    ("optimizer=sgd", "a2c.optimizer: rmsprop -> sgd would need moments of another optimiser"),
    ("env.id=Acrobot-v1", "env.id: CartPole-v1 -> Acrobot-v1 would need another environment"),
    ("engine=gymnasium", "engine: auto -> gymnasium would step the envs with the gymnasium engine, not with jax"),
    ("vectorization=sync", "vectorization: auto -> sync would step the envs with the gymnasium engine"),
    ("env.wrappers=[time_aware]", r"env.wrappers: \[\] -> \['time_aware'\] does not fit the checkpoint's state"),
    ("env.wrappers=['gymnasium.wrappers:RecordEpisodeStatistics']", "env.wrappers: .* with the gymnasium engine"),
])  # fmt: skip
def test_what_no_checkpoint_can_follow_is_refused_by_its_name(run, override, message):
    before = run.recipe.read_text(), run.manifest.read_text()
    with pytest.raises(UserError, match=f"{message}.*{BEGIN_AGAIN}"):
        resume(run, Continuation(overrides=(override,), budget="32"))
    assert (run.recipe.read_text(), run.manifest.read_text()) == before


def test_a_new_limit_ends_a_run_that_was_to_use_its_whole_budget(tmp_path):
    recipe = resolve("CartPole-v1:a2c", [*TINY, "eval.every=100%"], budget="160").recipe
    paths = RunPaths(train(recipe, Options(full_budget=True), tmp_path).run_dir)
    said = []
    how = Continuation(overrides=("stop.train_return=1",), budget="40k")
    done = resume(paths, how, announce=lambda summary: said.extend(summary.notes))
    assert done.stop_reason.startswith("train_return")
    assert any("stop.train_return is set" in note and "--full-budget no longer holds" in note for note in said)
    assert json.loads(paths.manifest.read_text())["full_budget"] is False


def test_a_policy_taken_over_with_another_activation_is_noted(run):
    recipe = resolve("CartPole-v1:a2c", [*TINY, "policy.activation=relu"], budget="16").recipe
    with prepare(recipe, Options(), NewRun(run.root.parent, (run, "last"))) as session:
        assert any("policy.activation: tanh -> relu" in note for note in session.summary.notes)
