"""What a broken recipe says: one message, each problem with its place and the nearest valid name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gymlab.core.errors import UserError
from gymlab.recipes.resolve import check_file, resolve
from tests.recipe_files import GOOD

pytestmark = pytest.mark.fast

# what: (text to replace, replacement, line of the problem, what the message must contain)
BROKEN: dict[str, tuple[str, str, int, list[str]]] = {
    "unknown key of a variant": ("n_envs: 8", "n_env: 8", 7, ["n_env: unknown key", "'n_envs'"]),
    "unknown key of the algorithm": ("epochs: 4", "epoch: 4", 13, ["ppo.epoch: unknown key", "'epochs'"]),
    "unknown key of the policy": ("activation:", "activaton:", 9, ["policy.activaton", "'activation'"]),
    "unknown key of the env": ("solved_at: 475", "solvd_at: 475", 3, ["env.solvd_at", "'solved_at'"]),
    "unknown key of the file": ("variants:", "variant:", 4, ["variant: unknown key", "'variants'"]),
    "a variant's key at the top": ("variants:", "budget: 1M\nvariants:", 4, ["budget", "inside a variant"]),
    "an algorithm's key beside its block": ("n_envs: 8", "gamma: 0.9", 7, ["gamma: unknown key", "'ppo.gamma'"]),
    "a variant's key inside a block": ("epochs: 4", "n_envs: 4", 13, ["ppo.n_envs: unknown key", "one level up"]),
    "misspelt algorithm": ("    ppo:\n", "    pppo:\n", 10, ["pppo: unknown key", "'ppo'"]),
    "foreign key: net_arch": ("n_envs: 8", "net_arch: [64]", 7, ["net_arch", "'policy.hidden'"]),
    "foreign key: policy_kwargs": ("policy: {", "policy_kwargs: {", 9, ["policy_kwargs", "'policy'"]),
    "foreign key: hidden_dims": ("hidden:", "hidden_dims:", 9, ["policy.hidden_dims", "'policy.hidden'"]),
    "foreign key: n_timesteps": ("budget: 100k env_steps", "n_timesteps: 1e5", 6, ["n_timesteps", "'budget'"]),
    "foreign key: total_timesteps": ("budget: 100k env_steps", "total_timesteps: 1", 6, ["'budget'"]),
    "foreign key: max_env_steps": ("budget: 100k env_steps", "max_env_steps: 1", 6, ["'budget'"]),
    "foreign key: ent_coef": ("epochs: 4", "ent_coef: 0", 13, ["ppo.ent_coef", "'ppo.entropy_coef'"]),
    "foreign key: vf_coef": ("epochs: 4", "vf_coef: 0", 13, ["ppo.vf_coef", "'ppo.value_coef'"]),
    "foreign key: n_epochs": ("epochs: 4", "n_epochs: 4", 13, ["ppo.n_epochs", "'ppo.epochs'"]),
    "foreign key: lr": ("learning_rate:", "lr:", 11, ["ppo.lr", "'ppo.learning_rate'"]),
    "foreign key: reward_threshold": ("solved_at:", "reward_threshold:", 3, ["reward_threshold", "'env.solved_at'"]),
    "algorithm as a key": ("n_envs: 8", "algorithm: ppo", 7, ["algorithm", "`ppo: {}`"]),
    "a seed": ("n_envs: 8", "seed: 3", 7, ["seed", "--seed"]),
    "wrong type: text for a count": ("n_envs: 8", "n_envs: many", 7, ["n_envs: expected a whole number, got 'many'"]),
    "wrong type: a fraction for a count": ("n_envs: 8", "n_envs: 1.5", 7, ["expected a whole number, got 1.5"]),
    "wrong type: a flag for a count": ("n_envs: 8", "n_envs: true", 7, ["expected a number, got True"]),
    "wrong type: a list for a count": ("n_envs: 8", "n_envs: [8]", 7, ["expected a whole number, got [8]"]),
    "wrong type: nothing for a count": ("n_envs: 8", "n_envs:", 7, ["expected a whole number, got nothing"]),
    "wrong type: a number for a list": (
        "hidden: [64, 64]",
        "hidden: 64",
        9,
        ["policy.hidden: expected a list, got 64"],
    ),
    "wrong type: text in a list": ("hidden: [64, 64]", "hidden: [64, x]", 9, ["policy.hidden[1]", "got 'x'"]),
    "wrong type: a number for a flag": ("epochs: 4", "normalize_advantage: 7", 13, ["expected true or false, got 7"]),
    "wrong type: a list for a block": (
        "policy: {hidden: [64, 64], activation: tanh}",
        "policy: []",
        9,
        ["block of keys"],
    ),
    "wrong type: a number for an env": ("id: CartPole-v1", "id: 7", 2, ["env.id: expected text, got 7"]),
    "wrong type: text for a variant": (
        "  fast:\n    extends: ppo\n    n_envs: 16",
        "  fast: ppo",
        14,
        ["variants.fast"],
    ),
    "out of range: no envs": ("n_envs: 8", "n_envs: 0", 7, ["n_envs: must be at least 1, got 0"]),
    "out of range: gamma": ("epochs: 4", "gamma: 1.5", 13, ["ppo.gamma: must stay within 0 and 1, got 1.5"]),
    "out of range: infinity": ("solved_at: 475", "solved_at: .inf", 3, ["env.solved_at: expected a finite number"]),
    "out of range: an absurd rollout": ("n_steps: 32", "n_steps: 1e9", 8, ["n_steps", "more than the"]),
    "unknown choice": ("tanh", "tnah", 9, ["policy.activation: unknown choice 'tnah'", "'tanh'"]),
    "unknown engine": ("n_envs: 8", "engine: jaxx", 7, ["engine: unknown choice 'jaxx'", "'jax'"]),
    "impossible batch size": ("batch_size: 64", "batch_size: 100", 12, ["ppo.batch_size", "256 steps", "64 or 128"]),
    "negative budget": ("100k env_steps", "-5", 6, ["budget: expected a whole number of steps, at least 1, got -5"]),
    "a budget without a clock": ("100k env_steps", "100k episodes", 6, ["unknown clock 'episodes'", "env_steps"]),
    "a misspelt clock": ("100k env_steps", "100k env_step", 6, ["unknown clock 'env_step'", "'env_steps'"]),
    "a share as a budget": ("100k env_steps", "10%", 6, ["budget: a budget is a number of steps"]),
    "bad schedule: text": ("lin_1e-3", "fast", 11, ["ppo.learning_rate: 'fast' is neither a number nor a schedule"]),
    "bad schedule: shape": ("lin_1e-3", "{start: 1, shape: cosin}", 11, ["shape 'cosin'", "'cosine'"]),
    "bad schedule: key": ("lin_1e-3", "{strat: 1}", 11, ["schedule key 'strat'", "'start'"]),
    "bad schedule: order": ("lin_1e-3", "[[50%, 1], [0%, 2]]", 11, ["ppo.learning_rate", "must rise"]),
    "unknown env": ("id: CartPole-v1", "id: CartPole-v9", 2, ["env.id", "'CartPole-v9'", "'CartPole-v1'"]),
    "no env": ("  id: CartPole-v1\n", "", 1, ["env.id: missing"]),
    "unknown parent": ("extends: ppo", "extends: pppo", 15, ["extends: unknown variant 'pppo'", "'ppo'"]),
    "a parent that is no name": ("extends: ppo", "extends: [ppo]", 15, ["extends: expected the name of a variant"]),
    "inheritance in a circle": (
        "  ppo:\n    budget",
        "  ppo:\n    extends: fast\n    budget",
        6,
        ["cycle", "fast -> ppo"],
    ),
    "its own parent": ("extends: ppo", "extends: fast", 15, ["cycle", "fast -> fast"]),
    "two algorithms": (
        "n_envs: 16",
        "n_envs: 16\n    a2c: {}\n    reinforce: {}",
        18,
        ["a second algorithm beside a2c"],
    ),
    "no algorithm": ("    extends: ppo\n", "", 14, ["variants.fast: no algorithm", "ppo"]),
    "another algorithm under its name": ("    ppo:\n      l", "    a2c:\n      l", 10, ["called 'ppo' but runs a2c"]),
    "an unknown module": ("n_envs: 16", "no_such_mod:PPO: {}", 16, ["no_such_mod:PPO", "no module 'no_such_mod'"]),
    "an algorithm that is none": ("n_envs: 16", "json:JSONDecoder: {}", 16, ["json:JSONDecoder: not an algorithm"]),
    "a missing file": ("n_envs: 16", "./no_such.py:PPO: {}", 16, ["./no_such.py:PPO", "no file"]),
    "appending to a number": ("n_envs: 16", "n_envs+: 3", 16, ["n_envs+: appends to a list"]),
    "unknown wrapper": ("solved_at: 475", "wrappers: [fram_stack]", 3, ["env.wrappers[0]", "'frame_stack'"]),
    "unknown argument of the env": ("solved_at: 475", "kwargs: {gravty: 1}", 3, ["env.kwargs.gravty", "no parameter"]),
    "duplicate key": ("n_steps: 32", "n_envs: 4", 8, ["n_envs: duplicate key, first written in line 7"]),
    "bad YAML: a bracket": ("[64, 64]", "[64, 64", 9, ["not valid YAML"]),
    "bad YAML: a tab": ("    n_envs: 8", "\tn_envs: 8", 7, ["not valid YAML"]),
    "bad YAML: indentation": ("    n_envs: 8", "   n_envs: 8", 7, ["not valid YAML"]),
    "bad YAML: two documents": ("variants:", "---\nvariants:", 4, ["not valid YAML"]),
    "a tag": ("n_envs: 8", "n_envs: !!python/object:os.system 8", 7, ["is not supported"]),
    "the same anchor twice": ("n_envs: 8\n    n_steps: 32", "n_envs: &a 8\n    n_steps: &a 32", 8, ["anchor"]),
    "a merge key": ("n_envs: 8", "<<: {n_envs: 8}", 7, ["merge keys are not supported: use extends"]),
    "a directive": ("env:\n", "%YAML 1.1\n---\nenv:\n", 1, ["directives"]),
    "a bad name of a variant": ("  fast:", "  fa:st:", 14, ["variant's name"]),
}


def _write(folder: Path, text: str) -> Path:
    path = folder / "broken.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_recipe_says_where_and_what_is_wrong(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    old, new, line, says = BROKEN[what]
    assert old in GOOD
    path = _write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(UserError) as caught:
        check_file(Path(path.name))
    message = str(caught.value)
    assert f"broken.yaml:{line}: " in message, message
    assert all(re.match(r"broken\.yaml:\d+: ", row) for row in message.splitlines()), message
    for text in says:
        assert text in message, message


def test_the_recipe_that_the_broken_ones_come_from_is_sound(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert check_file(_write(tmp_path, GOOD)) == []


def test_all_problems_are_told_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = GOOD.replace("n_envs: 8", "n_envs: 0").replace("epochs", "epoch").replace("tanh", "tnah")
    text = text.replace("lin_1e-3", "fast").replace("solved_at", "solvd_at")
    _write(tmp_path, text)
    with pytest.raises(UserError) as caught:
        resolve("broken.yaml")
    lines = [int(row.split(":")[1]) for row in str(caught.value).splitlines()]
    assert sorted(lines) == [3, 7, 9, 11, 13]


SPOILT = """\
env:
  id: CartPole-v1
  solvd_at: 475
  wrappers:
    - {scale_reward: {factr: 2}}
    - {frame_stak: 4}
    - {gymnasium.wrappers:RescaleAction: {min_action: -1, max_acton: 1}}
variants:
  ppo:
    budgt: 100k
    n_env: 8
    on_nan: halt
    policy: {hiden: [64], activation: tnah}
    normalize: {ob: true}
    eval: {episode: 5}
    stop: {secnds: 5}
    ppo: {epoch: 4}
"""


def test_bad_wrappers_are_told_beside_bad_keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _write(tmp_path, SPOILT)
    with pytest.raises(UserError) as caught:
        resolve("broken.yaml")
    rows = str(caught.value).splitlines()
    assert sorted(int(row.split(":")[1]) for row in rows) == [3, 5, 6, 7, 10, 11, 12, 13, 13, 14, 15, 16, 17]
    assert "unknown argument 'factr': did you mean 'factor'?" in str(caught.value)
    assert "required" not in str(caught.value)
    assert "unknown wrapper 'frame_stak': did you mean 'frame_stack'?" in str(caught.value)
    assert "unknown argument 'max_acton': did you mean 'max_action'?" in str(caught.value)


def test_a_missing_argument_of_a_wrapper_is_named():
    with pytest.raises(UserError, match="wrapper 'scale_reward': the argument 'factor' is missing"):
        resolve("CartPole-v1", ["env.wrappers=[scale_reward]"])


@pytest.mark.parametrize("extends", ["", "\n    extends: ppo"])
def test_a_broken_neighbour_costs_a_note(extends, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "syn.yaml").write_text("env: {id: CartPole-v1\nvariants: [\n")
    good = tmp_path / "good.yaml"
    good.write_text(f"env: {{id: CartPole-v1}}\nvariants:\n  mine:{extends}\n    budget: 10k\n    ppo: {{}}\n")
    (note,) = check_file(good)
    assert "left out: recipes/syn.yaml:2: not valid YAML" in note
    with pytest.raises(UserError, match=r"syn\.yaml:2: not valid YAML"):  # it may have what is asked for
        resolve("CartPole-v1")


def test_a_batch_size_is_judged_even_beside_other_mistakes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _write(tmp_path, GOOD.replace("batch_size: 64", "batch_size: 100").replace("tanh", "tnah"))
    with pytest.raises(UserError, match=r"(?s)tnah.*does not divide|does not divide.*tnah"):
        resolve("broken.yaml")


COMMAND_LINE: dict[str, tuple[list[str], list[str]]] = {
    "misspelt variant": (["CartPole-v1:pppo"], ["unknown variant 'pppo'", "'ppo'"]),
    "unknown env": (["CartPole-v9"], ["unknown environment 'CartPole-v9'", "'CartPole-v1'"]),
    "unknown env with a variant": (["CartPol-v1:ppo"], ["unknown environment 'CartPol-v1'", "'CartPole-v1'"]),
    "no variant after the colon": (["CartPole-v1:"], ["name a variant"]),
    "no such file": (["no_such.yaml"], ["there is no file 'no_such.yaml'"]),
    "no such file with a variant": (["no_such.yaml:ppo"], ["there is no file"]),
    "no such module": (["no_such_mod:Env-v0"], ["no module 'no_such_mod'"]),
    "a name too long for any file": (["x" * 5000 + ".yaml"], ["there is no file"]),
    "a name no file can have": (["a\0b.yaml"], ["there is no file"]),
    "nothing": ([""], ["unknown environment"]),
    "unknown key": (["CartPole-v1", "learning_rte=1"], ["learning_rte: unknown key", "'learning_rate'"]),
    "unknown dotted key": (["CartPole-v1", "polcy.hidden=[1]"], ["polcy.hidden: unknown key", "'policy.hidden'"]),
    "unknown key of a block": (["CartPole-v1", "policy.hiden=[1]"], ["policy.hiden: unknown key", "'hidden'"]),
    "foreign key": (["CartPole-v1", "n_timesteps=1e6"], ["n_timesteps", "'budget'"]),
    "ambiguous key": (["CartPole-v1", "every=10%"], ["every: ambiguous", "eval.every, checkpoints.every"]),
    "another algorithm's key": (["CartPole-v1", "a2c.gamma=1"], ["runs ppo, not a2c", "ppo.gamma"]),
    "no value": (["CartPole-v1", "n_envs"], ["expected key=value, got 'n_envs'"]),
    "bad value": (["CartPole-v1", "n_envs=many"], ["n_envs: expected a whole number, got 'many'"]),
    "bad YAML": (["CartPole-v1", "hidden=[64"], ["hidden: '[64' is not valid YAML"]),
    "impossible batch size": (["CartPole-v1", "batch_size=100"], ["ppo.batch_size", "64 or 128"]),
    "a seed": (["CartPole-v1", "seed=1"], ["seed", "--seed"]),
    "a reward threshold above all": (
        ["CartPole-v1", "solved_at=high"],
        ["env.solved_at: expected a number, got 'high'"],
    ),
}


@pytest.mark.parametrize("what", COMMAND_LINE)
def test_a_mistake_on_the_command_line_says_so(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (reference, *overrides), says = COMMAND_LINE[what]
    with pytest.raises(UserError) as caught:
        resolve(reference, overrides)
    message = str(caught.value)
    assert message.startswith("command line: ")
    for text in says:
        assert text in message, message
