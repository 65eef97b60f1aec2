"""The pages over finished runs, in a real browser: what they show is what the store holds."""

import json
import math

import numpy as np
import pytest

from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.paths import RunPaths
from gymlab.runs.registry import Registry
from tests.synthetic import make_run
from tests.waiting import wait_until
from tests.web.browsing import drawn, looking, serving

pytest.importorskip("nicegui")
BAD = "<script>window.broken = true</script><img src=x onerror='window.broken = true'>"
TABS = ("Charts", "Histograms", "Alerts", "Overview", "Settings", "State", "Log", "Report", "Review")


def hostile(root):
    """A run whose every text wants to be markup, or code."""
    paths = make_run(root, "hostile", updates=8)
    manifest = json.loads(paths.manifest.read_text())
    manifest |= {"recipe": BAD, "note": BAD, "group": BAD, "algorithm": BAD, "notes": [BAD], "command": ["x", BAD]}
    manifest |= {"changes": [[BAD, BAD, BAD]], "env": {"id": BAD}, "seed": {":seed": "window.broken = true"}}
    paths.manifest.write_text(json.dumps(manifest))
    paths.tags.write_text(json.dumps({"tags": [BAD, {":tag": "window.broken = true"}]}))
    paths.log.write_text(f"{BAD}\n\x1b[31mred\n")
    paths.report.write_text(f"# {BAD}\n\n[link](javascript:alert(1))\n")
    paths.recipe.write_text(f'env: {{id: "x", kwargs: {{":x": "{BAD}"}}}}\nvariants: {{ppo: {{budget: "{BAD}"}}}}\n')
    step = {"updates": 1, "vec_steps": 1, "env_steps": 1}
    alert = dict.fromkeys(("id", "severity", "title", "metric", "evidence", "advice"), BAD)
    alert |= {"numbers": {}, "count": 1, "judged": 2, "first": step, "last": step, "active": True}
    paths.alerts.write_text(json.dumps({"alerts": [alert | {"overrides": {":a": BAD}}, {"id": BAD}, 7]}))
    status = json.loads(paths.status.read_text()) | {"stop_reason": BAD}
    paths.status.write_text(json.dumps(status))
    with MetricsWriter(paths.metrics) as writer:
        clock = dict.fromkeys(("updates", "vec_steps", "env_steps", "episodes", "seconds", "gradient_steps"), 9.0)
        writer.append([clock | {f"roll/{BAD}": 1.0, ":formatter": 2.0, "opt/kl_stop_fraction": 0.25}])
    (root / "registry.json").unlink()
    return paths


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    runs = tmp_path_factory.mktemp("pages") / "runs"
    for seed in range(3):
        make_run(runs, f"run-{seed}", seed=seed, updates=40 + 4 * seed, learning_rate=f"lin_{seed + 1}e-3")
    bounds = {"opt/entropy": [0.0, math.log(2)], "roll/return_mean": [0.0, 500.0]}
    (runs / "run-0" / "bounds.json").write_text(json.dumps(bounds))
    hostile(runs)
    make_run(runs, "doomed")
    with serving(runs) as found:
        yield found


def test_charts_show_the_stores_numbers_between_their_bounds(chrome, site):
    with MetricsReader(RunPaths(site.runs / "run-0").metrics) as reader:
        stored = reader.read(["roll/return_mean", "opt/entropy"])
    with looking(chrome, site.base) as tab:
        tab.goto(f"{site.base}/run/run-0")
        shown = drawn(tab, "roll/return_mean")
        line = np.array(shown["series"][-1]["data"])
        np.testing.assert_allclose(line, np.stack([stored["vec_steps"], stored["roll/return_mean"]], 1), rtol=1e-4)
        entropy = drawn(tab, "opt/entropy")
        assert (entropy["low"], entropy["high"]) == (0, pytest.approx(math.log(2)))
        tab.get_by_label("axis").click()
        tab.get_by_role("option", name="env_steps").click()
        wait_until(lambda: drawn(tab, "opt/entropy")["series"][-1]["data"][0][0] == 256, what="the other axis")
        tab.get_by_text("log", exact=True).click()
        wait_until(lambda: drawn(tab, "opt/entropy")["low"] is None, what="a logarithmic axis")
        drawn(tab, "evaluation, mean and 95 % interval")


def test_runs_are_listed_filtered_and_grouped(chrome, site):
    with looking(chrome, site.base) as tab:
        tab.goto(site.base)
        tab.get_by_role("gridcell", name="run-1").wait_for()
        tab.get_by_label("Filter runs").fill("run-2")
        wait_until(lambda: tab.get_by_role("gridcell", name="run-1").count() == 0, what="the filter")
        assert tab.get_by_role("gridcell", name="run-2").count() == 1
        tab.get_by_label("Filter runs").fill("")
        tab.get_by_text("Group by recipe").click()
        tab.get_by_role("gridcell", name="CartPole-v1:ppo").first.wait_for()


def choose(tab, run_id):
    row = tab.locator(f'.ag-row[row-id="{run_id}"]').first
    row.locator("input[type=checkbox]").check()


def test_a_run_is_tagged_noted_and_deleted_only_when_confirmed(chrome, site):
    registry = Registry(site.runs)
    with looking(chrome, site.base) as tab:
        tab.goto(site.base)
        choose(tab, "doomed")
        tab.get_by_label("Tag", exact=True).click()
        tab.get_by_label("Tag (with a -").fill("weak")
        tab.get_by_role("button", name="Save").click()
        tab.get_by_role("gridcell", name="weak").wait_for()
        tab.get_by_label("Note", exact=True).first.click()
        tab.get_by_role("dialog").get_by_role("textbox").fill(BAD)
        tab.get_by_role("button", name="Save").click()
        wait_until(lambda: {run["id"]: run for run in registry.runs()}["doomed"]["note"] == BAD, what="the note")
        assert {run["id"]: run for run in registry.runs()}["doomed"]["tags"] == ["weak"]
        tab.get_by_label("Delete", exact=True).first.click()
        tab.get_by_role("button", name="Keep").click()
        assert (site.runs / "doomed").exists()
        tab.get_by_label("Delete", exact=True).first.click()
        tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
        wait_until(lambda: not (site.runs / "doomed").exists(), what="the end")
        wait_until(lambda: tab.get_by_role("gridcell", name="doomed").count() == 0, what="its row to go")
        assert tab.evaluate("window.broken") is None


def test_the_command_that_makes_a_run_again_is_copied(chrome, site):
    with looking(chrome, site.base, permissions=["clipboard-read", "clipboard-write"]) as tab:
        tab.goto(site.base)
        choose(tab, "run-1")
        tab.get_by_label("Copy the command").click()
        # The browser's other pages write to the same clipboard.
        wanted = f"gymlab train {site.runs}/run-1/recipe.yaml --seed 1 --engine jax --device cpu"
        wait_until(lambda: tab.evaluate("navigator.clipboard.readText()") == wanted, what=f"{wanted!r} to be copied")


def test_what_a_run_says_of_itself_stays_text_on_every_page(chrome, site):
    with looking(chrome, site.base) as tab:
        for tab_name in TABS:
            tab.goto(f"{site.base}/run/hostile?tab={tab_name}")
            tab.get_by_role("tab", name=tab_name, selected=True).wait_for()
            tab.wait_for_timeout(700)
            assert tab.get_by_text("window.broken").count() > 0
            assert tab.evaluate("window.broken") is None, tab_name
        for path in ("/", "/compare?runs=hostile,run-0"):
            tab.goto(f"{site.base}{path}")
            tab.wait_for_timeout(700)
            assert tab.evaluate("window.broken") is None, path


def test_runs_are_compared_by_curve_setting_and_score(chrome, site):
    with looking(chrome, site.base) as tab:
        tab.goto(f"{site.base}/compare?runs=run-0,run-1,run-2")
        lines = drawn(tab, "roll/return_mean")["series"]
        assert [line["name"] for line in lines] == ["run-0", "run-1", "run-2"]
        tab.get_by_role("cell", name="learning_rate").wait_for()
        assert [tab.get_by_role("cell", name=f"lin_{n}e-3").count() for n in (1, 2, 3)] == [1, 1, 1]
        tab.get_by_text("mean and 95 % interval by recipe").click()
        wait_until(
            lambda: drawn(tab, "roll/return_mean")["series"][-1]["name"] == "CartPole-v1:ppo (n=3)", what="a mean"
        )
        band = drawn(tab, "roll/return_mean")["series"][1]["data"]
        assert max(width for _, width in band) > 1


@pytest.mark.parametrize(("width", "scheme"), [pytest.param(1280, "light", marks=pytest.mark.slow), (390, "dark")])
def test_nothing_sticks_out_of_a_narrow_window_and_dark_is_dark(chrome, site, width, scheme):
    with looking(chrome, site.base, width=width, scheme=scheme) as tab:
        for path in ("/", "/run/run-0", "/run/run-0?tab=State", "/run/run-0?tab=Review", "/compare?runs=run-0,run-1"):
            tab.goto(site.base + path)
            tab.wait_for_timeout(500)
            assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
        assert tab.evaluate("document.body.classList.contains('body--dark')") == (scheme == "dark")
        tab.get_by_label("Light, dark or automatic").click()  # from automatic to light
        wait_until(lambda: not tab.evaluate("document.body.classList.contains('body--dark')"), what="light")
        tab.goto(site.base)  # a cookie remembers it
        tab.get_by_role("gridcell", name="run-1").wait_for()
        wait_until(lambda: not tab.evaluate("document.body.classList.contains('body--dark')"), what="light again")


def test_tabs_are_reached_by_keyboard(chrome, site):
    with looking(chrome, site.base) as tab:
        tab.goto(f"{site.base}/run/run-0")
        tab.get_by_role("tab", name="Charts").focus()
        tab.keyboard.press("ArrowRight")
        tab.keyboard.press("Enter")
        tab.get_by_role("tab", name="Histograms", selected=True).wait_for()


def test_a_deleted_run_leaves_its_open_page_quiet(chrome, site):
    make_run(site.runs, "fleeting", updates=8)
    with looking(chrome, site.base) as tab:
        tab.goto(f"{site.base}/run/fleeting")
        drawn(tab, "roll/return_mean")
        from gymlab.runs.store import remove_run

        remove_run(RunPaths(site.runs / "fleeting"))
        tab.get_by_text("deleted", exact=True).wait_for()
        assert tab.get_by_text("CartPole-v1:ppo, seed 0").count() == 1


def test_settings_that_differ_from_the_recipe_are_shown_beside_it(chrome, site):
    with looking(chrome, site.base) as tab:
        tab.goto(f"{site.base}/run/run-1?tab=Settings")
        tab.get_by_text("differ from CartPole-v1:ppo as it is today").wait_for(timeout=60_000)
        row = tab.get_by_role("row").filter(has_text="ppo.learning_rate")
        assert row.get_by_role("cell").all_inner_texts()[:3] == ["ppo.learning_rate", "lin_2e-3", "lin_1e-3"]
