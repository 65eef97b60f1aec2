"""A real run's checkpoint with a flipped bit, a cut-off end or a missing field is refused; the run goes on exactly."""

import json
import random
import re
import shutil

import pytest

from gymlab.core.errors import RunError
from gymlab.recipes.resolve import resolve
from gymlab.runs import files
from gymlab.runs.checkpoint_folder import _sealed
from gymlab.runs.checkpoints import Damaged, load_checkpoint, load_policy, read_index
from gymlab.runs.paths import RunPaths
from gymlab.session.build import build
from gymlab.session.session import Options
from gymlab.session.start import Continuation, resume, train
from tests.running import assert_same_run

SETTINGS = ["n_envs=4", "n_steps=16", "batch_size=32", "policy.hidden=[8]", "eval.episodes=2", "eval.final_episodes=2"]
SETTINGS += ["metrics.statistics=basic"]
ENGINES = ("jax", "gymnasium")
NAMES = ("policy.safetensors", "state.safetensors", "checkpoint.json")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run on each engine: 8 updates, with a checkpoint after each."""
    root = tmp_path_factory.mktemp("runs")
    for engine in ENGINES:
        train(recipe_for(engine), Options(run_id=engine, full_budget=True), root)
    return root


def recipe_for(engine):
    return resolve("CartPole-v1:ppo", SETTINGS, budget="512", engine=engine).recipe


def copy_of(runs, tmp_path, engine="jax", name="copy"):
    return RunPaths(shutil.copytree(runs / engine, tmp_path / name))


def damaged(data, rng, *, cut):
    if cut:
        return data[: rng.randrange(len(data))]
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def damage(paths, trials, *, cut):
    """Damage the newest checkpoint again and again, and mend it; counts what was noticed."""
    rng = random.Random(trials)
    newest, before = sorted((int(folder.name) for folder in paths.checkpoints.glob("[0-9]*")), reverse=True)[:2]
    sound = load_checkpoint(paths, str(before))
    expected = {name: tensor.tobytes() for name, tensor in (sound.policy | sound.state).items()}
    folder, noticed = paths.checkpoints / str(newest), 0
    contents = {folder / name: (folder / name).read_bytes() for name in NAMES}
    for _ in range(trials):
        (victim,) = rng.choices(list(contents), weights=map(len, contents.values()))  # as chance would hit the disk
        victim.write_bytes(damaged(contents[victim], rng, cut=cut))
        loaded = load_checkpoint(paths)
        noticed += loaded.step == before and f"checkpoint {newest} is damaged" in loaded.notes[0]
        assert {name: tensor.tobytes() for name, tensor in (loaded.policy | loaded.state).items()} == expected
        if victim.name != "state.safetensors":
            with pytest.raises(Damaged):
                load_policy(folder)
        victim.write_bytes(contents[victim])
    assert load_checkpoint(paths).step == newest
    return noticed


def damage_index(paths, trials):
    """The index says in short what the folders say: damaged, it changes neither what is loaded nor what is kept."""
    rng, truth = random.Random(trials), read_index(paths)
    original = paths.checkpoint_index.read_bytes()
    for trial in range(trials):
        paths.checkpoint_index.write_bytes(damaged(original, rng, cut=trial % 2 == 0))
        for which in ("last", "best"):
            loaded = load_checkpoint(paths, which)
            assert (loaded.path.name, loaded.notes) == (truth[which], [])
        told = read_index(paths)
        assert (told["last"], told["best"]) == (truth["last"], truth["best"])
        assert set(told["periodic"]) >= set(truth["periodic"])
    paths.checkpoint_index.write_bytes(original)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_flipped_bit_and_every_cut_is_noticed_and_the_checkpoint_before_is_used(runs, tmp_path, engine):
    paths = copy_of(runs, tmp_path, engine)
    assert damage(paths, 150, cut=False) == 150
    assert damage(paths, 25, cut=True) == 25
    damage_index(paths, 20)


@pytest.mark.slow
def test_ten_thousand_flipped_bits_and_a_thousand_cuts_are_noticed(runs, tmp_path):
    for engine in ENGINES:
        paths = copy_of(runs, tmp_path, engine, engine)
        assert damage(paths, 5000, cut=False) == 5000
        assert damage(paths, 500, cut=True) == 500
        damage_index(paths, 500)


def go_on_after(paths, name, *, cut):
    """Resume a run as if it had been killed, with one file of its newest checkpoint damaged; what it told."""
    files.write_json(paths.status, {**files.read_json(paths.status), "status": "running"})
    victim = paths.checkpoints / read_index(paths)["last"] / name
    victim.write_bytes(damaged(victim.read_bytes(), random.Random(name), cut=cut))
    told = []
    result = resume(paths, Continuation(), announce=lambda summary: told.extend(summary.notes))
    assert result.status == "finished"
    return "\n".join(told)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_whose_newest_checkpoint_is_damaged_goes_on_exactly_from_the_one_before(runs, tmp_path, engine):
    paths = copy_of(runs, tmp_path, engine)
    told = go_on_after(paths, "state.safetensors", cut=False)
    assert "checkpoint 512 is damaged: state.safetensors does not match its hash\nusing checkpoint 448 instead" in told
    assert "resumed (exact) at 448 env_steps, update 7" in told
    assert_same_run(runs / engine, paths.root)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_run_goes_on_exactly_whichever_file_is_damaged(runs, tmp_path, name, cut):
    for engine in ENGINES:
        paths = copy_of(runs, tmp_path, engine, engine)
        assert "using checkpoint 448 instead\nresumed (exact)" in go_on_after(paths, name, cut=cut)
        assert_same_run(runs / engine, paths.root)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_state_that_lacks_any_one_tensor_is_refused_by_its_name(runs, tmp_path, engine):
    paths = copy_of(runs, tmp_path, engine)
    parts, saved = build(recipe_for(engine), 0), load_checkpoint(paths).state
    begun = parts.program.start(0)
    try:
        assert parts.program.load(begun, saved)[1] == []
        assert len(saved) >= 40
        for name in saved:
            lacking = {other: tensor for other, tensor in saved.items() if other != name}
            own_name = name.rpartition("/env/")[2] if engine == "gymnasium" else name
            with pytest.raises(RunError, match=rf"lacks {own_name}"):
                parts.program.load(begun, lacking)
    finally:
        parts.program.close()


def leave_out(folder, *path):
    """Write a checkpoint's sidecar again without one entry, as a version of ours that forgot it would have."""
    sidecar = json.loads((folder / "checkpoint.json").read_text())
    del sidecar["self"]
    tree = sidecar["info"]
    for key in path[:-1]:
        tree = tree[key]
    del tree[path[-1]]
    (folder / "checkpoint.json").write_bytes(_sealed(sidecar))


def refused_without(runs, folder, path):
    """Whether a run that lacks this entry in its last checkpoint is refused by its name."""
    paths = copy_of(runs, folder, name=".".join(path))
    files.write_json(paths.status, {**files.read_json(paths.status), "status": "running"})
    leave_out(paths.checkpoints / "512", *path)
    with pytest.raises(RunError) as refusal:
        resume(paths, Continuation())
    return ".".join(path) in re.search(r"the checkpoint lacks (.*):", str(refusal.value))[1].split(", ")


def test_a_state_that_lacks_any_one_entry_beside_the_tensors_is_refused_by_its_name(runs, tmp_path):
    info = load_checkpoint(RunPaths(runs / "jax")).info
    paths = [(name,) for name in info] + [(block, name) for block in ("clock", "features") for name in info[block]]
    assert [path for path in paths if not refused_without(runs, tmp_path, path)] == []
    assert len(paths) > 12


@pytest.mark.slow
def test_a_features_state_that_lacks_any_one_entry_is_refused_by_its_name(runs, tmp_path):
    states = load_checkpoint(RunPaths(runs / "jax")).info["features"]
    paths = [("features", feature, name) for feature, state in states.items() for name in state]
    assert [path for path in paths if not refused_without(runs, tmp_path, path)] == []
    assert paths
