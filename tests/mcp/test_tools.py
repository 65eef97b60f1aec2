"""Every tool has a contract: what it answers, how large, and how it refuses."""

import base64
import json
from pathlib import Path

import pytest

from gymlab.mcp.server import READING, WRITING
from tests.mcp.client import TINY, size

KINDS = {"input", "run", "busy", "timeout", "internal"}


def test_a_training_is_started_through_the_queue_and_a_key_starts_it_once(lived):
    (started,) = lived.started.data["runs"]
    assert started["run_id"].startswith("cartpole-v1-ppo-")
    assert lived.again.data["runs"][0]["run_id"] == started["run_id"]
    assert lived.early.data["status"] in ("queued", "starting", "running")


def test_waiting_for_a_metric_returns_when_it_is_met_and_a_timeout_returns_the_status(lived):
    assert lived.condition.data["reached"] is True
    assert lived.timeout.data["reached"] is False
    assert lived.timeout.data["status"]["status"] == "running"


def test_a_run_outlives_its_killed_server_and_the_next_one_finds_it(lived):
    assert lived.found.data["status"] == "running"
    assert lived.found.data["job"] == lived.started.data["runs"][0]["job"]


def test_a_run_is_stopped_with_a_checkpoint_and_resumed_to_its_end(lived):
    assert lived.stopped.data["status"] == "stopped"
    assert lived.resumed.data["runs"][0]["run_id"] == lived.run
    assert lived.finished.data["status"]["status"] == "finished", lived.finished.text
    assert lived.finished.data["status"]["env_steps"] >= lived.stopped.data["env_steps"] + 5000


def test_the_server_has_not_imported_jax(lived, session):
    session.call("diagnose", run=lived.run)
    assert "jaxlib" not in Path(f"/proc/{session.pid}/maps").read_text()


def test_every_tool_says_what_it_takes_and_gives_and_what_it_changes(session):
    tools = {tool.name: tool for tool in session.ask(session.client.list_tools()).tools}
    assert set(tools) == {tool.__name__ for tool in (*READING, *WRITING)}
    for tool in tools.values():
        assert tool.description, tool.name
        assert tool.output_schema["properties"], tool.name
        assert tool.input_schema["additionalProperties"] is False, tool.name
        assert tool.annotations.read_only_hint == (tool.name not in {write.__name__ for write in WRITING})
    everything = [tool.model_dump(mode="json", exclude_none=True) for tool in tools.values()]
    assert len(json.dumps(everything)) < 48_000


def test_envs_and_recipes_are_listed_in_pages(session):
    envs = session.call("list_envs", query="cartpole").data
    assert {"id": "CartPole-v1", "max_episode_steps": 500, "solved_at": 475.0, "needs": None} in envs["envs"]
    first = session.call("list_recipes", limit=2).data
    second = session.call("list_recipes", limit=2, offset=first["next_offset"]).data
    assert len(first["recipes"]) == 2
    assert first["recipes"] != second["recipes"]
    named = session.call("list_recipes", query="CartPole-v1:ppo").data["recipes"]
    assert named == [{"recipe": "CartPole-v1:ppo", "source": "packaged"}]


def test_a_recipe_is_shown_with_overrides_by_full_key(session):
    shown = session.call("show_recipe", recipe="CartPole-v1:ppo", overrides=["learning_rate=2e-3"]).data
    assert shown["settings"]["ppo.learning_rate"] == 0.002
    assert shown["source"] == "packaged"


def test_a_wrong_override_names_the_nearest_key(session):
    found = session.call("validate_recipe", recipe="CartPole-v1:ppo", overrides=["learning_rat=1"]).data
    assert found["valid"] is False
    assert "did you mean 'learning_rate'?" in found["problems"][0]


@pytest.mark.parametrize("name", ["opt/approx_kl", "entropy-collapse"])
def test_a_name_is_explained(session, name):
    (meaning,) = session.call("explain", name=name).data["found"]
    assert meaning["name"] == name
    assert meaning["text"]


def test_runs_are_listed_and_filtered(lived, session):
    (entry,) = session.call("list_runs", tag="life").data["runs"]
    assert (entry["run_id"], entry["recipe"], entry["status"]) == (lived.run, "CartPole-v1:ppo", "finished")
    assert session.call("list_runs", tag="other").data == {"runs": [], "total": 0, "next_offset": None}
    assert session.call("list_runs", status="crashed").data["total"] == 0


def test_a_run_is_shown_with_what_was_changed_and_what_came_of_it(lived, session):
    shown = session.call("show_run", run=lived.run).data
    assert shown["changed"]["policy.hidden"] == [4]
    assert shown["evaluation"]["greedy"]["n"] == 2
    assert shown["checkpoints"]["last"] == str(shown["status"]["env_steps"])


def test_metrics_come_down_sampled_and_as_a_chart_and_unknown_ones_are_refused(lived, session):
    found = session.call("metrics", run=lived.run, names=["opt/entropy", "roll/return_mean"], points=5, chart=True)
    assert [series["name"] for series in found.data["metrics"]] == ["opt/entropy", "roll/return_mean"]
    assert all(len(series["x"]) == len(series["y"]) == 5 for series in found.data["metrics"])
    assert "┤" in found.data["metrics"][0]["chart"]
    assert "roll/return_mean" in session.call("metrics", run=lived.run).data["available"]
    wrong = session.call("metrics", run=lived.run, names=["opt/entropi"])
    assert (wrong.kind, "did you mean 'opt/entropy'" in wrong.text) == ("input", True)


def test_logs_alerts_report_and_diagnosis_are_short(lived, session):
    log = session.call("logs", run=lived.run, lines=3)
    assert len(log.data["lines"]) == 3
    assert session.call("alerts", run=lived.run).data["run_id"] == lived.run
    report = session.call("report", run=lived.run)
    assert report.data["markdown"].startswith("# CartPole-v1:ppo, seed 0")
    assert "Curves" in report.data["sections"]
    assert "## Curves" in session.call("report", run=lived.run, parts=["Curves"]).data["markdown"]
    diagnosis = session.call("diagnose", run=lived.run)
    assert diagnosis.data["verdict"]
    assert max(map(size, (log, report, diagnosis))) < 8000


def test_what_to_try_next_can_be_started_as_it_is_told(lived, session):
    told = session.call("suggest_next", run=lived.run).data
    assert told["command"].startswith("gymlab ")
    if told["recipe"] is not None:
        assert "policy.hidden=[4]" in told["overrides"]


def test_a_checkpoint_is_evaluated_and_an_episode_played(lived, session):
    scored = session.call("evaluate", run=f"{lived.run}/last", episodes=2).data
    assert scored["results"]["greedy"]["n"] == 2
    played = session.call("episode", run=lived.run, seed=3, rows=2).data
    assert sum(played["actions"].values()) == played["steps"] == played["total_return"]
    assert len(played["rows"]) == 2


def test_frames_are_pictures(lived, session):
    found = session.call("frames", run=lived.run, count=2)
    assert not found.error, found.text
    assert len(found.images) == 2
    assert base64.b64decode(found.images[0].data).startswith(b"\x89PNG")
    assert sum(len(image.data) for image in found.images) < 60_000


def test_runs_are_compared(lived, session):
    found = session.call("compare_runs", runs=[lived.run, "@last"])
    assert [run["run_id"] for run in found.data["runs"]] == [lived.run]
    assert found.data["chart"]


def test_the_digest_tells_what_began_and_ended_and_the_queue_what_waits(lived, session):
    digest = session.call("digest", since="1h").data
    assert any(event["what"].startswith("finished: CartPole-v1:ppo") for event in digest["events"])
    assert session.call("digest", since="2099-01-01T00:00:00Z").data["events"] == []
    jobs = session.call("queue").data["jobs"]
    assert [job["state"] for job in jobs] == ["cancelled", "done"]


def test_what_changes_something_is_in_the_audit_log(lived):
    entries = [json.loads(line) for line in (lived.folder / "runs/.audit.jsonl").read_text().splitlines()]
    assert [entry["tool"] for entry in entries[:4]] == ["start_training", "start_training", "stop", "resume"]
    assert entries[0]["arguments"]["recipe"] == "CartPole-v1:ppo"
    assert all(entry["ok"] for entry in entries[:4])


def test_resources_hold_recipes_reports_and_the_reference(lived, session):
    def read(uri):
        return session.ask(session.client.read_resource(uri)).contents[0].text

    assert "gymlab://recipes/CartPole-v1" in read("gymlab://recipes").splitlines()
    assert "id: CartPole-v1" in read("gymlab://recipes/CartPole-v1")
    assert read(f"gymlab://runs/{lived.run}/report").startswith("# CartPole-v1:ppo")
    assert "opt/approx_kl" in read("gymlab://reference/metrics")
    assert "entropy-collapse" in read("gymlab://reference/alerts")


def test_prompts_hold_all_that_is_needed(lived, session):
    def ask(name, **arguments):
        return session.ask(session.client.get_prompt(name, arguments)).messages[0].content.text

    assert ask("debug_run", run=lived.run).startswith("# Diagnose this run")
    assert "learning_rate" in ask("plan_sweep", recipe="CartPole-v1:ppo", budget="200k")
    assert "## Latest runs" in ask("next_steps")


@pytest.mark.slow
def test_a_sweep_goes_through_the_queue_and_its_results_come_best_first(session):
    order = {"recipe": "CartPole-v1:ppo", "space": ["ppo.learning_rate=1e-3,1e-2"], "overrides": TINY}
    started = session.call("sweep_start", name="two-rates", method="grid", budget="2k", key="sweep", **order)
    assert not started.error, started.text
    while not (ended := session.call("wait", run=started.data["job"], timeout_s=50).data)["reached"]:
        assert ended["status"]["status"] in ("queued", "running")
    status = session.call("sweep_status", name="two-rates").data
    assert (status["status"], status["counts"]["finished"]) == ("finished", 2), status
    trials = session.call("sweep_results", name="two-rates").data["trials"]
    assert [trial["state"] for trial in trials] == ["finished", "finished"]
    assert trials[0]["value"] >= trials[1]["value"]
    assert session.call("sweep_status", name="no-such-sweep").kind == "input"
