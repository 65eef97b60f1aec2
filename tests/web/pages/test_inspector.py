"""The inspector in a real browser: every number on the page is the table's, and all ways through it work."""

import contextlib
import csv
import io
import json
import math
import subprocess

import httpx
import pytest

import gymlab
from gymlab.core.errors import UserError
from gymlab.media.episode_trace import read_csv
from gymlab.web.workers.worker_limit import MOST, PageWorkers
from tests.waiting import wait_until
from tests.web.browsing import looking, serving
from tests.web.workers.made import large_runs, made_runs  # noqa: F401

pytest.importorskip("nicegui")
SECONDS = 90  # a worker has JAX to import and an env to open
CELLS = """() => Object.fromEntries([...document.querySelectorAll('[data-key]')].map(cell =>
    [(cell.closest('[data-part]')?.dataset.part ?? '') + '/' + cell.dataset.key, cell.title]))"""


@pytest.fixture(scope="module")
def site(made_runs):  # noqa: F811
    with serving(made_runs) as site:
        yield site


@pytest.fixture(scope="module")
def page_of(site, chrome):
    """The page of a run, opened once: a worker takes seconds to start. Every test begins at the first step."""
    with contextlib.ExitStack() as stack:
        tabs = {}

        def open_page(run):
            if run not in tabs:
                tabs[run] = opened(stack.enter_context(looking(chrome, site.base)), site, run)
            tabs[run].get_by_label("First step (Home)").click()
            at_step(tabs[run], 0)
            return tabs[run]

        yield open_page


def opened(tab, site, run):
    tab.goto(f"{site.base}/inspect/{run}")
    wait_until(lambda: "return" in (part(tab, "summary") or ""), f"the episode of {run}")
    return tab


def part(tab, name):
    found = tab.query_selector(f"[data-part='{name}']")
    return found.text_content() if found else None


def at_step(tab, step):
    wait_until(lambda: (part(tab, "place") or "").startswith(f"{step} /"), what=f"step {step}")


def table(tab, tmp_path):
    """The page's own download, as rows."""
    with tab.expect_download() as download:
        tab.get_by_text("Download CSV").click()
    download.value.save_as(tmp_path / "episode.csv")
    return read_csv(tmp_path / "episode.csv")


def flat(value, path):
    """Numbers of a cell of the table by the name that the page gives them."""
    if isinstance(value, dict):
        return {k: v for key, inner in value.items() for k, v in flat(inner, f"{path}.{key}").items()}
    if isinstance(value, list):
        return {k: v for key, inner in enumerate(value) for k, v in flat(inner, f"{path}.{key}").items()}
    return {path if path.count(".") else f"{path}.": value}


def check_step(tab, row):
    """All that the page says of a step is what the table says, to the last digit."""
    cells = tab.evaluate(CELLS)
    wanted = {f"observation/{key}": value for key, value in flat(row["observation"], "observation").items()}
    for column in ("raw", "network_input"):
        if row[column] is not None and not isinstance(row["observation"], str):
            stacked = column == "network_input" and row["raw"] is not None  # a stack's grid shows what was stacked
            wanted |= {} if stacked else {f"observation/{k}": v for k, v in flat(row[column], column).items()}
    outcome = ("reward", "return_so_far", "train_reward", "return_to_go", "value", "baseline", "advantage", "gae",
               "td_error", "terminated", "truncated")  # fmt: skip
    wanted |= {f"outcome/{name}": row[name] for name in outcome}
    wanted |= {f"outcome/part.{name}": value for name, value in row["components"].items()}
    wanted |= {f"probabilities/{name}": row[name] for name in ("probability", "log_prob", "entropy")}
    wanted |= {f"probabilities/p{place}": share for place, share in enumerate(row["probabilities"])}
    shown = {key: cells.get(key) for key in wanted}
    assert shown == {key: str(value) for key, value in wanted.items()}
    assert part(tab, "action") == f"Action: {row['label']}"


@pytest.mark.parametrize("run", ["lake", "bandit", "custom", "cart"])
def test_every_value_on_the_page_is_the_table_s(site, page_of, run, tmp_path):
    tab = page_of(run)
    rows = table(tab, tmp_path)
    for key, step in (("Home", 0), ("ArrowRight", min(1, len(rows) - 1)), ("End", len(rows) - 1)):
        tab.keyboard.press(key)
        at_step(tab, step)
        wait_until(lambda row=rows[step]: tab.evaluate(CELLS).get("outcome/value") == str(row["value"]))
        check_step(tab, rows[step])
    assert f"{len(rows)} steps" in part(tab, "summary")


def test_keys_buttons_scrubbing_playing_and_jumps_move_through_the_episode(site, page_of, tmp_path):
    tab = page_of("cart")
    rows = table(tab, tmp_path)
    last = len(rows) - 1
    assert last > 5
    presses = (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Shift+ArrowRight", min(11, last)),
               ("Home", 0), ("End", last), ("ArrowRight", last))  # fmt: skip
    for key, step in presses:
        tab.keyboard.press(key)
        at_step(tab, step)
    tab.get_by_label("First step (Home)").click()
    at_step(tab, 0)
    tab.get_by_label("Step on (right)").click()
    at_step(tab, 1)
    box = tab.locator("[data-part=scrub]").bounding_box()
    tab.mouse.click(box["x"] + box["width"] - 1, box["y"] + box["height"] / 2)
    at_step(tab, last)
    tab.get_by_text("lowest value").click()
    at_step(tab, min(range(last + 1), key=lambda t: rows[t]["value"]))
    tab.get_by_text("highest surprise").click()
    at_step(tab, max(range(last + 1), key=lambda t: abs(rows[t]["td_error"])))
    tab.keyboard.press("Home")
    at_step(tab, 0)
    tab.mouse.click(5, 5)  # no button has the focus any more
    tab.keyboard.press("Space")
    at_step(tab, last)  # it has played to the end
    play = tab.get_by_label("Play or pause (space)")
    wait_until(
        lambda: "play_arrow" in play.text_content(), what="the end of playing"
    )  # else the next test's step moves
    picture = tab.locator("img[alt='the environment']")
    wait_until(lambda: picture.evaluate("image => image.complete && image.naturalWidth") == 600, what="the picture")
    assert f"-env-{last:05d}.png" in picture.get_attribute("src")


def test_the_time_line_shows_the_table_and_marks_the_step(site, page_of, tmp_path):
    read = """() => { const at = document.querySelector('[data-part=timeline]');
        return getElement(Number(at.id.slice(1))).chart.getOption().series.map(
            s => [s.name, s.data.map(p => p[1]), s.markLine?.data?.[0]?.xAxis ?? null]) }"""
    tab = page_of("cart")
    rows = table(tab, tmp_path)
    tab.keyboard.press("ArrowRight")
    at_step(tab, 1)
    wait_until(lambda: tab.evaluate(read)[0][2] == 1, what="the mark")
    lines = {name: values for name, values, _ in tab.evaluate(read)}
    columns = {"value": "value", "reward": "reward", "GAE": "gae", "TD error": "td_error", "advantage": "advantage",
               "return from here": "return_to_go", "entropy": "entropy", "baseline": "baseline"}  # fmt: skip
    for told, column in columns.items():
        assert lines[told] == pytest.approx([row[column] for row in rows])
    assert lines["part: time"] == pytest.approx([-0.05] * len(rows))


def test_another_observation_changes_the_probabilities_as_predict_does(site, page_of, monkeypatch, tmp_path):
    monkeypatch.setenv("GYMLAB_RUNS", str(site.runs))
    loaded = gymlab.load("lake/best")
    tab = page_of("lake")
    rows = table(tab, tmp_path)
    field, seen = tab.locator("[data-part='edit-whole']"), []
    for cell in (5, 9, 14):
        field.fill(str(cell))
        shares = wait_until(lambda: new_shares(tab, seen), what=f"cell {cell}")
        seen.append(shares)
        action, _ = loaded.predict(cell)
        assert shares.index(max(shares)) == int(action)
    assert rows[0]["probabilities"] not in seen
    tab.get_by_role("button", name="Reset").click()
    wait_until(lambda: not part(tab, "what-if"), what="the answer to go")


def new_shares(tab, seen):
    cells = tab.evaluate(CELLS)
    shares = [float(text) for key, text in sorted(cells.items()) if key.startswith("what-if/p")]
    return shares if shares and shares not in seen else None


def test_another_action_is_carried_out_and_its_episode_can_be_looked_at(site, page_of, tmp_path):
    tab = page_of("bandit")
    rows = table(tab, tmp_path)
    tab.locator("[data-part=force]").click()
    tab.get_by_role("option", name="3: arm 3").click()
    tab.get_by_text("Do that instead").click()
    told = wait_until(lambda: (found := tab.evaluate(CELLS)) and "forced/forced.return" in found and found)
    assert told["forced/forced.reward"] != str(rows[0]["reward"])
    tab.get_by_text("Look at that episode").click()
    wait_until(lambda: part(tab, "action") == "Action: arm 3", what="the other episode")
    assert tab.evaluate(CELLS)["outcome/reward"] == told["forced/forced.reward"]


def test_what_mattered_and_the_text_for_a_review_are_shown_on_demand(site, page_of):
    tab = page_of("custom")
    tab.get_by_text("Compute").click()
    cells = wait_until(lambda: (c := tab.evaluate(CELLS)) and "attribution/gradient.position.0" in c and c)
    assert math.isfinite(float(cells["attribution/value-gradient.position.1"]))
    tab.get_by_text("Review this episode").click()
    told = wait_until(lambda: part(tab, "review"), what="the text")
    assert "> episode: checkpoint" in told
    assert "> run: custom" in told
    tab.get_by_role("button", name="Explain this episode").click()
    tab.get_by_text("No model is configured: copy the text instead").wait_for()


def test_another_seed_and_sampled_actions_give_another_episode(site, page_of, tmp_path):
    tab = page_of("bandit")
    first = table(tab, tmp_path)
    tab.get_by_label("seed").fill("5")
    tab.get_by_text("Run episode").click()
    wait_until(lambda: "seed 5" in part(tab, "summary"), "seed 5")
    assert table(tab, tmp_path) != first


def test_files_of_a_worker_are_served_under_its_token_alone(site, page_of):
    tab = page_of("cart")
    source = tab.locator("img[alt='the environment']").get_attribute("src")
    token = source.split("/")[2]
    assert httpx.get(site.base + source).headers["content-type"] == "image/png"
    for name in ("../../etc/passwd", "%2e%2e%2fmetrics.db", "e0.csv.bak", "x.png", "e0-env-00000.png%00"):
        assert httpx.get(f"{site.base}/worker-files/{token}/{name}").status_code in (400, 404)
    assert httpx.get(f"{site.base}/worker-files/{'A' * 22}/{source.split('/')[3]}").status_code == 404


def test_a_run_that_is_not_there_is_said_so_and_the_list_leads_to_those_that_are(site, chrome):
    with looking(chrome, site.base) as tab:
        tab.goto(f"{site.base}/inspect/nobody")
        tab.get_by_text("there is no run 'nobody'").wait_for()
        tab.goto(f"{site.base}/inspect")
        assert tab.get_by_role("link", name="cart", exact=True).get_attribute("href") == "/inspect/cart"


@pytest.mark.slow
@pytest.mark.parametrize("run", ["lander", "objects", "rgb", "masked"])
def test_every_value_on_the_page_is_the_table_s_for_large_envs_too(large_runs, chrome, run, tmp_path):  # noqa: F811
    with serving(large_runs) as site, looking(chrome, site.base) as tab:
        rows = table(opened(tab, site, run), tmp_path)
        for key, step in (("Home", 0), ("ArrowRight", min(1, len(rows) - 1)), ("End", len(rows) - 1)):
            tab.keyboard.press(key)
            at_step(tab, step)
            wait_until(lambda row=rows[step]: tab.evaluate(CELLS).get("outcome/value") == str(row["value"]))
            check_step(tab, rows[step])
        if run == "rgb":
            seen = tab.locator("[data-part=seen]")
            assert wait_until(lambda: seen.evaluate("image => image.complete && image.naturalWidth")) == 4 * 84 + 3 * 2
            tab.get_by_text("Compute").click()
            heat = tab.locator("[data-part=heat]")
            heat.wait_for(state="visible", timeout=60_000)
            wait_until(lambda: heat.evaluate("image => image.complete && image.naturalWidth"), what="the heat")


def test_the_csv_has_the_columns_of_the_step_table(site):
    """What is downloaded is read by others too: JSON in cells, nothing for what is unknown."""
    from gymlab.media.episode_trace import COLUMNS
    from gymlab.web.workers.client import InspectorClient
    from gymlab.web.workers.step_table import EpisodeRequest

    inspector = InspectorClient(site.runs / "lake")
    name = inspector.episode(EpisodeRequest()).result(SECONDS)["name"]
    head, first, *_ = csv.reader(io.StringIO(inspector.csv(name).decode()))
    inspector.close()
    assert head == list(COLUMNS)
    assert len(json.loads(first[head.index("probabilities")])) == 4


def test_only_so_many_workers_are_open_at_a_time_and_no_name_leads_out_of_their_folders(tmp_path):
    class Worker:
        folder, closed = tmp_path, False

        def close(self):
            self.closed = True

    (tmp_path / "e0.csv").write_text("a table")
    workers = PageWorkers()
    tokens = [workers.take(Worker)[0] for _ in range(MOST)]
    with pytest.raises(UserError, match="close one"):
        workers.take(Worker)
    assert workers.file(tokens[0], "e0.csv") == tmp_path / "e0.csv"
    for name in ("../e0.csv", "e0.csv/", "e0-env-1.png", "e0-other-00001.png", "", "."):
        assert workers.file(tokens[0], name) is None
    workers.end(tokens[0])
    assert workers.file(tokens[0], "e0.csv") is None
    token, worker = workers.take(Worker)
    workers.end_all()
    assert worker.closed
    assert workers.file(token, "e0.csv") is None


@pytest.mark.slow
def test_a_worker_ends_with_its_page(made_runs, chrome):  # noqa: F811
    with serving(made_runs) as site:
        with looking(chrome, site.base) as tab:
            opened(tab, site, "bandit")
            assert len(children(site.pid)) == 1
        wait_until(lambda: not children(site.pid), "the worker to end")


def children(pid):
    found = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, text=True, check=False)
    return found.stdout.split()
