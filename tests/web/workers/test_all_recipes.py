"""Every env that ships with a recipe can be inspected: its first variant, after a short training."""

import pytest

from gymlab.campaigns.smoke.candidates import candidates
from gymlab.campaigns.smoke.check_recipe import shrinking, what_to_install
from gymlab.core.errors import GymlabError
from gymlab.media.episode_trace import LARGEST_ARRAY
from gymlab.recipes.resolve import amend, resolve
from gymlab.runs.paths import RunPaths
from gymlab.session.session import Options
from gymlab.session.start import train
from gymlab.web.workers.inspector_session import InspectorSession
from gymlab.web.workers.step_table import EpisodeRequest, EpisodeTable, episode_text, value_at

FIRST = list({found.reference.rpartition(":")[0]: found.reference for found in reversed(candidates())}.values())[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("reference", FIRST)
def test_every_recipe_s_episode_is_told_step_by_step_and_can_be_asked_about(reference, tmp_path):
    try:
        recipe = resolve(reference).recipe
        recipe = amend(recipe, shrinking(recipe))
        train(recipe, Options(run_id="run", full_budget=True), tmp_path / "runs")
        session = InspectorSession(RunPaths(tmp_path / "runs" / "run"), tmp_path)
    except GymlabError as error:
        lacking = what_to_install(str(error))
        if lacking is None:
            raise
        pytest.skip(lacking)
    facts, answer = session.facts(), session.episode(EpisodeRequest(max_steps=20), "e0")
    row = answer["rows"][0]
    for part in facts["components"]:
        if part["kind"] in ("number", "choice"):
            assert isinstance(value_at(row["observation"], part["path"]), int | float)
    assert len(facts["components"]) <= LARGEST_ARRAY * 4
    assert row["label"]
    assert row["value"] is not None
    told = session.what_if("e0", 0)
    assert told["probabilities"] == row["probabilities"]
    assert told["distribution"] == row["distribution"]
    assert (told["value"], told["label"]) == (row["value"], row["label"])
    table = EpisodeTable(answer["rows"], answer["ended"], answer["checkpoint"], 0, sampled=False, name="e0")
    assert "step 0" in episode_text(table)
    if isinstance(row["observation"], int) or all(part["kind"] == "choice" for part in facts["components"]):
        with pytest.raises(GymlabError, match="no gradient"):
            session.attribution("e0", 0)
    else:
        assert session.attribution("e0", 0)["value"] is not None
    session.close()
