"""`gymlab diagnose`: findings from the run's folder alone, the bundle, and advice written as a recipe."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gymlab.alerts.causes import BUGS, CAUSES
from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import Alert, Step, alerts_json
from gymlab.diagnosis.findings import RunFinding, first_actionable, rank_findings
from gymlab.diagnosis.llm_prompt import MAX_CHARACTERS
from gymlab.diagnosis.remedy import write_remedy
from gymlab.diagnosis.unsolved import fit_trend
from gymlab.diagnosis.unusual_settings import RANGES, unusual_settings
from gymlab.metrics.bounds import Context
from gymlab.recipes.resolve import resolve
from gymlab.runs import files
from gymlab.runs.metrics_writer import MetricsWriter
from tests.synthetic import make_run

ROOT = Path(__file__).parent.parent.parent
RECIPE = """\
env: {{id: CartPole-v1, kwargs: {{}}, actions: [left, right], solved_at: 475}}
variants:
  ppo:
    budget: {budget} env_steps
    n_envs: 8
    n_steps: 32
    ppo: {{learning_rate: {rate}, gamma: {gamma}, epochs: 20, batch_size: 64}}
"""


def unsolved(root, run_id, *, returns, rate="lin_1e-3", gamma=0.98, status="finished", **metrics):
    """A finished, unsolved run of so many updates with these returns, and other metrics held constant."""
    paths = make_run(root, run_id, updates=len(returns), status=status)
    recipe = RECIPE.format(budget=256 * len(returns), rate=rate, gamma=gamma)
    files.write_text(paths.recipe, recipe)
    with MetricsWriter(paths.metrics) as writer:
        for update, value in enumerate(returns, 1):
            values = {"roll/return_mean": float(value), "roll/return_window": 100.0, **metrics}
            judged = {"eval/greedy_mean": float(value), "eval/sampled_mean": float(value)}
            writer.amend(update, values | (judged if update % (len(returns) // 4) == 0 else {}))
    record = files.read_json(paths.status)
    record["summary"] |= {"solved": False, "score": float(max(returns))}
    files.write_json(paths.status, record)
    return paths


def finding(name, severity="warning", kind="alert", **more):
    return RunFinding(name, kind, severity, "title", "evidence", "advice", {"ppo.gamma": 0.9}, **more)


def looked_at(cli, run, *options):
    done = cli("diagnose", run, "--json", *options)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_causes_come_before_what_they_bring_about_however_severe():
    found = [
        finding("return-collapsed", "critical"),
        finding("kl-high", share=0.1),
        finding("value-loss-exploding", "critical"),
    ]
    order = rank_findings(found, CAUSES)
    assert [each.id for each in order] == ["kl-high", "value-loss-exploding", "return-collapsed"]
    assert order[0].explains == ("return-collapsed", "value-loss-exploding")


def test_what_nothing_explains_is_ordered_by_severity_then_share_then_time():
    found = [
        finding("b", share=0.2, since=9),
        finding("a", share=0.9),
        finding("c", "critical", share=0.1),
        finding("d", since=3, share=0.2),
    ]
    assert [each.id for each in rank_findings(found, [])] == ["c", "a", "d", "b"]


def test_a_fault_is_first_then_bugs_and_falling_short_comes_before_hints():
    found = [
        finding("hint", "info"), finding("not-solved", "info", "outcome"), finding("kl-high"),
        finding("bounds-broken", "warning", "bug"), finding("numerical-fault", "critical", "fault"),
    ]  # fmt: skip
    order = [each.id for each in rank_findings(found, CAUSES)]
    assert order == ["numerical-fault", "bounds-broken", "kl-high", "not-solved", "hint"]
    assert (
        first_actionable(rank_findings(found[:1], []), ended=False) is None
    )  # a run that goes on is not changed for a hint


def test_causes_name_alerts_that_exist_and_never_go_in_a_circle():
    from gymlab.alerts.registry import names

    ours = {"not-solved", "budget-short"}
    assert {name for pair in CAUSES for name in pair} <= {*names(), *ours}
    assert set(BUGS) <= set(names())
    left = set(CAUSES)
    while left:
        effects = {effect for _, effect in left}
        roots = {cause for cause, _ in left} - effects
        assert roots, sorted(left)
        left = {pair for pair in left if pair[0] not in roots}


def test_settings_are_unusual_only_outside_their_range_and_their_remedy_lies_inside():
    def case(**settings):
        return RunContext(
            Context(settings={"n_envs": 8, "n_steps": 32, **{f"ppo.{k}": v for k, v in settings.items()}})
        )

    usual = {name: known.usual for name, known in RANGES.items()}
    assert unusual_settings(case(**usual, batch_size=64)) == []
    odd = unusual_settings(case(**usual | {"learning_rate": "lin_0.1", "gamma": 0}, batch_size=4))
    assert {each.id: each.overrides for each in odd} == {
        "unusual-learning-rate": {"ppo.learning_rate": "lin_0.0003"},
        "unusual-gamma": {"ppo.gamma": 0.99},
        "unusual-batch-size": {"ppo.batch_size": 64},
    }
    assert odd[0].id == "unusual-gamma"  # the furthest out
    short = RunContext(Context(settings={"n_envs": 4, "n_steps": 3, "ppo.learning_rate": 1e-3, "ppo.batch_size": 6}))
    assert unusual_settings(short)[0].overrides == {"n_steps": 96}  # 4 x 96 steps, which minibatches of 6 divide


def test_a_trend_is_seen_through_noise_and_not_seen_where_there_is_none():
    steps, noise = np.arange(1, 201) * 256.0, np.random.default_rng(0).normal(0, 5, 200)
    rising, flat, falling = (fit_trend(steps, 100 + slope * steps / 1000 + noise) for slope in (2, 0, -2))
    assert (rising.rising, flat.rising, falling.rising) == (True, False, False)
    assert (rising.falling, flat.falling, falling.falling) == (False, False, True)
    assert rising.per_step == pytest.approx(2 / 1000, rel=0.15)
    assert fit_trend(steps[:4], noise[:4]) is None


def test_a_solved_run_has_nothing_wrong_with_it_and_nothing_to_apply(cli):
    make_run(cli.folder / "runs", "good")
    told = cli("diagnose", "good").out
    assert "verdict: solved: nothing is wrong (greedy return 500, 475 is solved)" in told
    assert told.endswith("next: gymlab eval good\n")
    refused = cli("diagnose", "good", "--apply")
    assert (refused.code, "nothing to apply, it is solved" in refused.err) == (2, True)
    assert not (cli.folder / "recipes").exists()


def test_a_run_that_was_still_rising_is_told_how_much_longer_to_train(cli):
    unsolved(cli.folder / "runs", "slow", returns=np.linspace(20, 220, 100))
    facts = looked_at(cli, "slow")
    assert [each["id"] for each in facts["findings"]] == ["budget-short"]
    # From 195 (the mean of the last quarter) 280 are missing, at 200 per 25.6k env steps: 25.6k + 35.9k = 61.4k.
    assert "475 is reached at about 6" in facts["findings"][0]["evidence"]
    assert facts["remedy"]["overrides"] == {"budget": "77k env_steps"}  # a quarter more, rounded up
    assert cli("diagnose", "slow").out.endswith("next: gymlab diagnose slow --apply\n")


def test_an_unusual_setting_of_a_run_that_learns_nothing_is_found_first(cli):
    unsolved(cli.folder / "runs", "myopic", returns=[20.0, 21.0] * 50, gamma=0)
    facts = looked_at(cli, "myopic")
    first = facts["findings"][0]
    assert (first["id"], first["severity"], first["overrides"]) == ("unusual-gamma", "critical", {"ppo.gamma": 0.99})
    assert {"return-stalled", "not-solved"} <= set(first["explains"])
    told = cli("diagnose", "myopic").out
    assert "1. unusual-gamma (critical)" in told
    assert "ppo.gamma is 0, below the usual 0.9 to 1" in told


def test_the_alerts_a_run_wrote_down_count_else_its_metrics_are_judged_again(cli):
    paths = unsolved(cli.folder / "runs", "jumpy", returns=[20.0] * 100, **{"opt/approx_kl": 0.4})
    folded = looked_at(cli, "jumpy")["alerts"]
    kl = next(alert for alert in folded if alert["id"] == "kl-high")
    assert (kl["count"], kl["share"], kl["first"]["env_steps"]) == (100, 1.0, 256)
    step = Step(3, 96, 768)
    mine = Alert("my-rule", "warning", "t", "opt/loss", "e", {}, 1, 2, step, step, True, "Do that.", {"ppo.gamma": 0.9})
    files.write_json(paths.alerts, alerts_json([mine]))
    facts = looked_at(cli, "jumpy")
    assert [alert["id"] for alert in facts["alerts"]] == ["my-rule"]
    assert facts["remedy"] == {"finding": "my-rule", "overrides": {"ppo.gamma": 0.9}}
    paths.alerts.write_text('{"alerts": [{"id": 1}]}')
    assert looked_at(cli, "jumpy")["alerts"] == folded


def test_a_run_that_did_not_end_properly_is_judged_again_and_keeps_what_it_wrote_down(cli):
    paths = unsolved(cli.folder / "runs", "cut", returns=[20.0] * 100, status="failed", **{"opt/approx_kl": 0.4})
    step = Step(3, 96, 768)
    mine = Alert("my-rule", "warning", "t", "opt/loss", "e", {}, 1, 2, step, step, True, "Do that.", {})
    files.write_json(paths.alerts, alerts_json([mine, replace(mine, id="kl-high")]))
    alerts = {alert["id"]: alert for alert in looked_at(cli, "cut")["alerts"]}
    assert alerts["my-rule"]["judged"] == 2
    assert alerts["kl-high"]["judged"] == 100


@pytest.mark.parametrize(("status", "found"), [("stopped", []), ("failed", ["run-failed"])])
def test_a_run_that_ended_early_is_looked_at_too(cli, status, found):
    make_run(cli.folder / "runs", "early", updates=8, status=status)
    facts = looked_at(cli, "early")
    assert facts["status"] == status
    assert [finding["id"] for finding in facts["findings"]] == found


def test_a_run_without_metrics_or_recipe_or_status_still_gets_an_answer(cli):
    paths = make_run(cli.folder / "runs", "bare")
    for path in (paths.metrics, paths.recipe, paths.status):
        path.unlink()
    facts = looked_at(cli, "bare", "--bundle")
    assert facts["findings"] == []
    assert facts["verdict"].startswith("nothing was measured")
    assert "gymlab logs bare" in cli("diagnose", "bare").out


def test_looking_at_a_run_from_strangers_imports_nothing_of_theirs(cli):
    paths = unsolved(cli.folder / "runs", "theirs", returns=[20.0] * 100, gamma=0)
    (cli.folder / "evil.py").write_text("raise SystemExit('imported')\n")
    text = (
        paths.recipe.read_text().replace("id: CartPole-v1", "id: ./evil.py:Env").replace("ppo: {", "./evil.py:Algo: {")
    )
    paths.recipe.write_text(text)
    facts = looked_at(cli, "theirs", "--bundle")
    assert facts["findings"][0]["id"] == "unusual-gamma"
    done = subprocess.run(
        [sys.executable, "-c", f"""
import sys
sys.argv = ["gymlab", "diagnose", {str(paths.root)!r}]
from gymlab.cli.main import main
try:
    main()
except SystemExit:
    pass
assert "jax" not in sys.modules
"""], check=False, capture_output=True, text=True, cwd=cli.folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_bundle_is_one_bounded_page_without_secrets(cli, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "abcdef0123456789")
    paths = unsolved(cli.folder / "runs", "bad", returns=[20.0] * 100, gamma=0)
    paths.log.write_text("key abcdef0123456789\n" + "```\n" * 5 + "x" * 5000 + "\nthe last line\n")
    facts = looked_at(cli, "bad", "--bundle")
    page = Path(facts["bundle"]).read_text()
    assert Path(facts["bundle"]) == paths.root / "diagnosis.md"
    assert len(page) <= MAX_CHARACTERS
    assert "abcdef0123456789" not in page
    for part in (
        "## Result",
        "## Findings",
        "unusual-gamma",
        "## Alerts",
        "## Returns",
        "ppo.gamma: 0",
        "the last line",
        "┤",
    ):
        assert part in page, part
    assert page.count("\n```") % 2 == 0  # every quotation is closed
    elsewhere = cli("diagnose", "bad", "--output", "out.md")
    assert "bundle for a person or a model: out.md" in elsewhere.out
    assert (cli.folder / "out.md").read_text() == page
    assert cli("diagnose", "bad", "--output", "no/such/folder/out.md").code == 2


def test_a_long_log_does_not_make_a_long_bundle(cli):
    paths = unsolved(cli.folder / "runs", "wordy", returns=[20.0] * 100)
    paths.log.write_text(("word " * 100 + "\n") * 1000)
    page = Path(looked_at(cli, "wordy", "--bundle")["bundle"]).read_text()
    assert len(page) <= MAX_CHARACTERS


def test_advice_becomes_a_variant_that_extends_the_runs_own_and_says_where_it_comes_from(cli):
    unsolved(cli.folder / "runs", "myopic", returns=[20.0, 21.0] * 50, gamma=0)
    applied = looked_at(cli, "myopic", "--apply")["applied"]
    assert applied["changes"] == [["ppo.gamma", 0, 0.99]]
    assert applied["train"] == "gymlab train recipes/advice/CartPole-v1.yaml:ppo-fix1 --seed 0"
    text = (cli.folder / "recipes/advice/CartPole-v1.yaml").read_text()
    assert "# run myopic, " in text
    assert "unusual-gamma: ppo.gamma is 0" in text
    assert "\n    extends: ppo\n" in text
    assert resolve("recipes/advice/CartPole-v1.yaml:ppo-fix1").recipe.algorithm.settings.gamma.start == 0.99
    assert resolve("CartPole-v1").recipe.name == "CartPole-v1:ppo"  # what a bare name runs has not changed


def test_advice_stacks_and_never_touches_what_was_written_before(clean_folder):
    first = write_remedy(
        resolve("CartPole-v1", ["learning_rate=0.1", "n_envs=16"]).recipe, {"ppo.learning_rate": 3e-4}, "run a"
    )
    before = first.path.read_text()
    run = resolve(first.reference).recipe
    assert (run.n_envs, run.algorithm.settings.learning_rate.start) == (16, 3e-4)
    second = write_remedy(run, {"ppo.gamma": 0.9, "normalize.reward": True}, "run b\nsecond line")
    again = write_remedy(run, {"ppo.gamma": 0.95}, "run b")
    assert (first.variant, second.variant, again.variant) == ("ppo-fix1", "ppo-fix2", "ppo-fix3")
    assert second.path.read_text().startswith(before)
    assert second.path.read_text().count("extends: ppo-fix1") == 2
    stacked = resolve(second.reference).recipe
    assert (stacked.n_envs, stacked.normalize.reward) == (16, True)
    assert sorted(path.name for path in second.path.parent.iterdir()) == ["CartPole-v1.yaml"]


def test_advice_on_a_run_from_elsewhere_is_written_out_in_full(clean_folder):
    (clean_folder / "else").mkdir()
    Path("else/x.yaml").write_text("env: {id: CartPole-v1}\nvariants:\n  odd:\n    n_envs: 4\n    ppo: {gamma: 0}\n")
    remedy = write_remedy(resolve("else/x.yaml").recipe, {"ppo.gamma": 0.99}, "run x")
    assert "extends" not in remedy.path.read_text()
    assert resolve(remedy.reference).recipe.n_envs == 4


def test_advice_is_not_added_to_a_file_that_cannot_be_read_nor_written_where_it_changes_nothing(cli):
    unsolved(cli.folder / "runs", "myopic", returns=[20.0, 21.0] * 50, gamma=0)
    advice = cli.folder / "recipes/advice/CartPole-v1.yaml"
    advice.parent.mkdir(parents=True)
    advice.write_text("env: {id: CartPole-v1}\nvariant: {}\n")
    assert cli("diagnose", "myopic", "--apply").code == 2
    assert advice.read_text() == "env: {id: CartPole-v1}\nvariant: {}\n"


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["rate-high", "gamma-zero"])
def test_following_the_first_advice_repairs_a_faulty_recipe(variant):
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks/faulty_recipes.py", "--only", variant, "--seed", "1"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    story = json.loads(done.stdout.splitlines()[0])
    assert not story["before"]["solved"]
    assert story["rounds"][-1]["solved"], story
