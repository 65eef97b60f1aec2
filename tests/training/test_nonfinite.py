"""Numbers that go bad anywhere stop a run before they are kept, named and with a bundle; or are skipped if asked."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from gymlab.core.clock import Clock
from gymlab.core.errors import RunError
from gymlab.core.types import Rollout
from gymlab.recipes.resolve import resolve
from gymlab.reports.fault_bundle import bundles, read_bundle
from gymlab.runs.checkpoints import load_checkpoint, steps
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from gymlab.session.build import build
from gymlab.training.named_tensors import to_tensors
from gymlab.training.nonfinite import NumericalFault, nonfinite_in_rollouts

BAD = Path(__file__).with_name("bad_parts.py")
RECIPE = """
env: {{id: {env}, wrappers: [{wrapper}]}}
variants:
  bad:
    budget: 1024 env_steps
    n_envs: 4
    n_steps: 16
    engine: {engine}
    policy: {{hidden: [8]}}
    eval: {{episodes: 2, final_episodes: 2, every: 100%}}
    checkpoints: {{every: 25%}}
    metrics: {{statistics: basic}}
    {algorithm}
"""
LEARNS = "./bad.py:BadLearns: {health: lin_1, "  # below a half from update 10 of 16 on
COMPILED, HOST = {"engine": "jax"}, {"engine": "gymnasium"}
CASES = {
    "observation, compiled": (
        {**COMPILED, "wrapper": "{./bad.py:Spoil: {obs: [70, 75]}}"},
        "observation (obs) is NaN in env 2 at step 6 of the rollout",
    ),
    "observation, host": (
        {**HOST, "wrapper": "{./bad.py:Spoil: {obs: [70, 75]}}"},
        "observation (obs) is NaN in env 2 at step 6 of the rollout",
    ),
    "reward, compiled": (
        {**COMPILED, "wrapper": "{./bad.py:Spoil: {reward: [80, 81], kind: inf}}"},
        "reward is inf in env 2 at step 16 of the rollout",
    ),
    "reward, host": (
        {**HOST, "wrapper": "{./bad.py:Spoil: {reward: [81, 82]}}"},
        "reward is NaN in env 2 at step 1 of the rollout",
    ),
    "action, compiled": (
        {**COMPILED, "env": "Pendulum-v1", "algorithm": "./bad.py:BadActs: {place: action}"},
        "action is NaN in env 1 at step",
    ),
    "logits, host": (
        {**HOST, "algorithm": "./bad.py:BadActs: {place: logits}"},
        "logits (log_prob) is NaN in env 1 at step",
    ),
    # Each reward is a number yet; only their discounted sum is none.
    "advantage, compiled": (
        {**COMPILED, "wrapper": "{./bad.py:Spoil: {reward: [70, 78], kind: huge}}"},
        "advantage is inf in env 2 at step",
    ),
    "loss, compiled": ({**COMPILED, "algorithm": LEARNS + "place: 1}"}, "loss is inf at gradient step 1"),
    "gradient, host": (
        {**HOST, "algorithm": LEARNS + "place: 2}"},
        "gradient of policy_head.weight is NaN at gradient step 1; then",
    ),
    "parameter, compiled": (
        {**COMPILED, "algorithm": LEARNS + "place: 3}"},
        "parameter value_head.bias is inf after the update",
    ),
}


def write_recipe(folder, env="CartPole-v1", engine="jax", algorithm=LEARNS + "place: 0}", wrapper=None):
    (folder / "bad.py").write_text(BAD.read_text())
    wrapper = wrapper or ("./bad.py:Spoil" if env == "CartPole-v1" else "")
    text = RECIPE.format(env=env, engine=engine, algorithm=algorithm, wrapper=wrapper)
    (folder / "bad.yaml").write_text(text)


def train(cli, *arguments, **settings):
    write_recipe(cli.folder, **settings)
    return cli("train", "bad.yaml", "--run-id", "bad", "--full-budget", "-q", *arguments)


def looked_at(cli, *, replay=False):
    done = cli("diagnose", "bad", "--json", *(["--replay"] if replay else []))
    assert done.code == 0, done.err
    return json.loads(done.out)


def rows_of(paths):
    with MetricsReader(paths.metrics) as reader:
        return reader.read(["updates", *reader.names()])


def assert_every_checkpoint_is_finite(paths, up_to):
    assert steps(paths)
    for step in steps(paths):
        assert step <= up_to
        loaded = load_checkpoint(paths, str(step))
        for name, tensor in (loaded.policy | loaded.state).items():
            assert tensor.dtype.kind != "f" or np.isfinite(tensor).all(), name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_bad_number_stops_the_run_is_named_and_nothing_of_it_is_kept(cli, case):
    settings, told = CASES[case]
    done = train(cli, **settings)
    assert done.code == 1, done.err
    (path,) = bundles(RunPaths(cli.folder / "runs" / "bad"))
    bundle = read_bundle(path)
    update = bundle.report["update"]
    assert f"numbers went bad in update {update} ({update * 64} env_steps): {told}" in done.err
    assert (
        f"last good checkpoint: {steps(RunPaths(cli.folder / 'runs' / 'bad'))[0]} env_steps; bundle: {path}\ntry: "
        in done.err
    )
    assert "gymlab diagnose bad" in done.err

    rows = rows_of(RunPaths(cli.folder / "runs" / "bad"))
    assert rows["updates"].tolist() == list(range(1, update))
    assert all(np.isfinite(rows[name]).all() for name in ("opt/loss", "opt/grad_norm") if name in rows)
    assert_every_checkpoint_is_finite(RunPaths(cli.folder / "runs" / "bad"), up_to=(update - 1) * 64)
    assert read_status(RunPaths(cli.folder / "runs" / "bad"))["status"] == "failed"

    facts = looked_at(cli, replay=case == "reward, host")
    assert facts["fault"]["findings"][0]["text"] in done.err
    assert case != "reward, host" or facts["replay"]["deterministic"]
    assert bundle.rollout()["0/reward"].shape == (16, 4)
    assert all(np.isfinite(x).all() for name, x in bundle.state().items() if name.startswith("algorithm/"))


@pytest.mark.slow
def test_an_exploding_run_can_be_looked_at_replayed_and_resumed_with_a_lower_rate(cli):
    done = train(cli, "learning_rate=1e30", algorithm="ppo: {batch_size: 32, epochs: 2}")
    assert done.code == 1
    assert "numbers went bad in update 1 (64 env_steps): loss (value_loss) is inf at gradient step 2; then" in done.err
    assert "try: a lower learning_rate (it was 1e+30)" in done.err
    shown = cli("diagnose", "bad", "--replay").out
    assert "replay: deterministic" in shown
    assert "! after/weights/policy_head.weight" in shown
    assert "what to try:\n  a lower learning_rate (it was 1e+30)\n  a lower max_grad_norm" in shown

    (path,) = bundles(RunPaths(cli.folder / "runs" / "bad"))
    report = json.loads((path / "fault.json").read_text())
    report["hp"]["learning_rate"] = 1e-4  # as if the machine had made a mistake
    (path / "fault.json").write_text(json.dumps(report))
    assert looked_at(cli, replay=True)["replay"]["message"].startswith("not reproducible: the update is sound now")
    state = bytearray((path / "state.safetensors").read_bytes())
    state[-1] ^= 1
    (path / "state.safetensors").write_bytes(state)
    with pytest.raises(RunError, match=r"bundle 000001 is damaged: state.safetensors does not match its hash"):
        read_bundle(path).state()

    resumed = cli("resume", "bad", "learning_rate=1e-4", "-q")
    assert resumed.code == 0, resumed.err
    facts = looked_at(cli)
    assert (facts["status"], facts["fault"]["passed"]) == ("finished", True)
    assert rows_of(RunPaths(cli.folder / "runs" / "bad"))["updates"].tolist() == list(range(1, 17))


def test_an_env_that_gives_nan_leaves_a_run_that_says_where_to_go_on(cli):
    done = train(cli, **HOST, wrapper="{./bad.py:NanAt: {k: 12}}")
    assert done.code == 1
    assert "env 0 (CartPole-v1)" in done.err
    assert "at step 12 with action" in done.err
    assert "\nlast good checkpoint: 0 env_steps; continue from there: gymlab resume bad\n" in done.err
    assert read_status(RunPaths(cli.folder / "runs" / "bad"))["status"] == "failed"
    assert_every_checkpoint_is_finite(RunPaths(cli.folder / "runs" / "bad"), up_to=0)
    assert cli("resume", "bad", "env.wrappers=[]", "-q").code == 0


@pytest.mark.slow
def test_too_many_bad_updates_in_a_row_end_a_run_that_skips(cli):
    done = train(cli, "on_nan=skip", "--budget", "2k", algorithm=LEARNS + "place: 1}")
    assert done.code == 1
    # 2k env_steps are 31.25 updates of 64: health is below a half from update 17 on, and 17..25 are nine.
    assert "numbers went bad in update 26 (1664 env_steps): loss is inf at gradient step 1" in done.err
    assert "; not skipped, for 9 in a row were" in done.err
    assert (
        "update 17 is skipped: it gave NaN or infinity (1 so far)"
        in (RunPaths(cli.folder / "runs" / "bad").log).read_text()
    )
    rows = rows_of(RunPaths(cli.folder / "runs" / "bad"))
    assert rows["sys/skipped_updates"].tolist() == [0] * 16 + list(range(1, 10))
    assert np.isfinite(rows["opt/loss"]).tolist() == [True] * 16 + [False] * 9
    assert np.isfinite(rows["roll/reward_mean"]).all()
    assert_every_checkpoint_is_finite(RunPaths(cli.folder / "runs" / "bad"), up_to=25 * 64)
    assert looked_at(cli)["skipped_updates"] == 9


@pytest.fixture(scope="module")
def parts_of(tmp_path_factory):
    """The parts of a run of the recipe above, made once for each set of overrides."""
    folder, known = tmp_path_factory.mktemp("bad"), {}

    def make(*overrides):
        if overrides not in known:
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(folder)
                write_recipe(folder, algorithm=LEARNS + "place: 1}")
                known[overrides] = build(resolve("bad.yaml", list(overrides)).recipe, 0)
        return known[overrides]

    return make


def advance(parts, state, first, count):
    clock = parts.plan.after(Clock(), first)
    return parts.program.advance(state, clock, parts.plan.scheduled(clock, count), float("inf"))


def digest(state):
    tensors = sorted(to_tensors(state).items())
    return hashlib.sha256(b"".join(name.encode() + tensor.tobytes() for name, tensor in tensors)).hexdigest()


def test_a_bad_call_is_cut_back_to_exactly_the_updates_before_the_bad_one(parts_of):
    parts = parts_of()
    begun = parts.program.start(0)
    state, rows = advance(parts, begun, 0, 9)
    with pytest.raises(NumericalFault, match=r"numbers went bad in update 10 \(640 env_steps\)") as caught:
        advance(parts, begun, 0, 16)
    good = caught.value.good
    assert digest(good.state) == digest(state) == digest(caught.value.bad.state)
    assert str(good.rows) == str(rows)


def test_a_parameter_that_was_bad_before_is_named_as_such(parts_of):
    parts = parts_of()
    begun = parts.program.start(0)
    params = begun.algorithm.params
    spoilt = params | {"value_head.bias": params["value_head.bias"] * np.nan}
    with pytest.raises(NumericalFault, match=r"parameter value_head.bias is NaN before the update"):
        advance(parts, begun._replace(algorithm=begun.algorithm._replace(params=spoilt)), 0, 1)


def test_skipping_does_not_depend_on_how_updates_are_cut_into_calls_nor_on_a_resume(parts_of):
    parts = parts_of("on_nan=skip")
    program, results = parts.program, []
    for cuts in ([16], [10, 6], [1] * 16):
        state, rows, done = program.start(0), [], 0
        for count in cuts:
            state, more = advance(parts, state, done, count)
            rows, done = rows + more, done + count
            state, reasons = program.load(program.start(1), program.save(state))
            assert reasons == []
        results.append((digest(state), str(rows)))
    assert len(set(results)) == 1
    assert [int(row["sys/skipped_updates"]) for row in rows] == [0] * 9 + list(range(1, 8))
    # What was skipped left no trace in what is learnt; the envs and the clocks went on.
    nine, _ = advance(parts, program.start(0), 0, 9)
    assert digest(nine.algorithm) == digest(state.algorithm)
    assert digest(nine.groups) != digest(state.groups)


def test_a_run_may_turn_to_skipping_and_back(parts_of):
    stops, skips = parts_of(), parts_of("on_nan=skip")
    state, _ = advance(stops, stops.program.start(0), 0, 2)
    turned, _ = skips.program.load(skips.program.start(0), stops.program.save(state))
    assert digest(turned._replace(skipped=None)) == digest(state)
    back, _ = stops.program.load(stops.program.start(0), skips.program.save(turned))
    assert digest(back) == digest(state)
    lacking = skips.program.save(turned)
    del lacking["skipped/total"]
    with pytest.raises(RunError, match="lacks skipped/total"):
        skips.program.load(skips.program.start(0), lacking)


def rollout(**spoilt):
    """Three steps of two envs, sound but for what is given as {name: (step, env)}."""
    arrays = {name: np.zeros((3, 2), np.float32) for name in Rollout._fields}
    arrays |= {name: np.zeros((3, 2, 4), np.float32) for name in ("obs", "successor")}
    arrays |= {"last_obs": np.zeros((2, 4), np.float32), "components": {}, "carry": (), "extras": {}}
    for name, where in spoilt.items():
        arrays[name][where] = np.nan
    return Rollout(**arrays)


@pytest.mark.parametrize(
    ("spoilt", "culprit"),
    [
        # An action at index t is chosen for step t + 1, which gives the successor at index t: the obs at index t + 1.
        ({"action": (1, 0), "successor": (1, 0), "obs": (2, 0), "reward": (1, 0)}, "action is NaN in env 0 at step 2"),
        ({"obs": (1, 1), "successor": (0, 1), "log_prob": (1, 1)}, "observation (obs) is NaN in env 1 at step 1"),
        ({"reward": (0, 1), "successor": (1, 1), "obs": (2, 1)}, "reward is NaN in env 1 at step 1"),
        ({"reward": (2, 1), "successor": (2, 1), "last_obs": (1,)}, "observation (obs) is NaN in env 1 at step 3"),
        ({"obs": (0, 0), "log_prob": (0, 0)}, "observation (obs) is NaN in env 0 where the rollout began"),
        ({"train_reward": (1, 1)}, "reward (train_reward) is NaN in env 1 at step 2"),
    ],
)
def test_the_earliest_of_several_bad_tensors_is_the_culprit(spoilt, culprit):
    assert str(nonfinite_in_rollouts((rollout(**spoilt),))[0]).startswith(culprit)
