"""The worker beside a page: asked from a process that has neither JAX nor an env."""

import subprocess
import sys

import pytest

from gymlab.core.errors import GymlabError, RunError
from gymlab.web.workers.client import InspectorClient, episode_table
from gymlab.web.workers.step_table import EpisodeRequest
from tests.running import environment


@pytest.fixture(scope="module")
def inspector(made_runs):
    inspector = InspectorClient(made_runs / "bandit")
    yield inspector
    inspector.close()
    assert not inspector.folder.exists()


def test_an_episode_comes_with_progress_and_without_pictures_where_there_are_none(inspector):
    told = []
    facts = inspector.facts.result(60)
    assert not facts["pictures"]
    answer = inspector.episode(EpisodeRequest(), told.append).result(60)
    table = episode_table(answer)
    assert (len(table.rows), table.ended) == (20, "truncated")
    assert answer["env_files"] == []
    assert told[0]["steps"] == 1
    assert inspector.csv(table.name).startswith(b"step,frame,observation,action,label")


def test_mistakes_and_stops_are_answers_and_the_worker_goes_on(inspector):
    with pytest.raises(GymlabError, match="checkpoint"):
        inspector.episode(EpisodeRequest("12345")).result(60)
    under_way = inspector.episode(EpisodeRequest())
    inspector.cancel(under_way)
    with pytest.raises(GymlabError, match="stopped"):
        under_way.result(60)
    assert inspector.episode(EpisodeRequest(max_steps=1)).result(60)["ended"] == "cut"


def test_a_worker_that_dies_says_so_and_is_not_waited_for(made_runs, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    inspector = InspectorClient(broken)
    with pytest.raises(GymlabError):
        inspector.facts.result(60)
    inspector._worker._child.kill()
    with pytest.raises(RunError):
        inspector.episode(EpisodeRequest()).result(60)
    inspector.close()


def test_a_page_s_process_imports_neither_jax_nor_gymnasium():
    code = (
        "import sys, gymlab.web.workers.client, gymlab.web.workers.step_table\n"
        "import gymlab.web.pages.inspector, gymlab.web.pages.playground\n"
        "print([name for name in ('jax', 'gymnasium', 'equinox') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
