"""A whole story over stdio with the official client: from finding a recipe to a solved run, in few words."""

import pytest

from tests.campaigns.queue_jobs import processes_of, until
from tests.mcp.client import Session

MOST_TOKENS = 20_000
LETTERS_PER_TOKEN = 4


def wait_for(session, run, until_what, patience=20):
    for _ in range(patience):
        found = session.call("wait", run=run, until=until_what, timeout_s=50).data
        if found["reached"] or found["status"]["status"] not in ("queued", "starting", "running"):
            return found
    raise AssertionError(found)


@pytest.mark.slow
def test_an_agent_finds_a_recipe_starts_it_badly_reads_why_and_solves_it(tmp_path):
    session = Session(tmp_path)
    try:
        recipes = session.call("list_recipes", query="cartpole").data["recipes"]
        recipe = next(entry["recipe"] for entry in recipes if entry["recipe"].endswith(":ppo"))
        session.call("show_recipe", recipe=recipe)

        bad = session.call("start_training", recipe=recipe, overrides=["learning_rate=0.5"], budget="100k", key="bad")
        run = bad.data["runs"][0]["run_id"]
        early = wait_for(session, run, "time/progress >= 0.3")
        assert early["reached"]
        alerts = session.call("alerts", run=run).data["alerts"]
        assert alerts, "a learning rate of 0.5 raises alerts"
        diagnosis = session.call("diagnose", run=run).data
        assert diagnosis["remedy"] is not None
        stopped = session.call("stop", run=run).data
        assert stopped["status"] in ("stopped", "finished")

        advice = session.call("suggest_next", run=run).data
        assert any(text.startswith("ppo.learning_rate=") for text in advice["overrides"]), advice
        good = session.call("start_training", recipe=advice["recipe"], overrides=advice["overrides"], budget="100k")
        second = good.data["runs"][0]["run_id"]
        ended = wait_for(session, second, "finished")
        assert ended["status"]["solved"] is True, ended

        compared = session.call("compare_runs", runs=[run, second]).data
        assert compared["runs"][0]["run_id"] == second
        assert "learning_rate" in compared["settings"]
        report = session.call("report", run=second).data["markdown"]
        assert ": solved" in report.splitlines()[0]
    finally:
        session.close()
    tokens = session.letters / LETTERS_PER_TOKEN
    print(f"the whole story: {session.letters} letters, about {tokens:.0f} tokens")
    assert tokens < MOST_TOKENS
    until(lambda: not processes_of(tmp_path / "runs"), what="the end of all processes")
