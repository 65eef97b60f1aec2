"""Trainings and lists of tasks through the queue, from the command line."""

import json

import pytest

from gymlab.campaigns.queue.jobs import JobRequest
from gymlab.campaigns.queue.runner import QueueRunner
from gymlab.campaigns.queue.store import Queue
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from tests.campaigns.queue_jobs import kill, until
from tests.running import gymlab, last_json

TINY = ("policy.hidden=[4]", "metrics.statistics=basic", "eval.episodes=2", "eval.final_episodes=2", "epochs=1")


@pytest.mark.slow
def test_a_queued_training_that_is_killed_goes_on_from_its_checkpoint_and_finishes(queue, folder):
    order = ("CartPole-v1:ppo", *TINY, "--budget", "200k", "--full-budget", "--tag", "night", "--queue", "--json")
    (job,) = last_json(gymlab("train", *order, cwd=folder))["jobs"]
    paths = RunPaths(queue.root / job["run_id"])
    until(lambda: len(list(paths.checkpoints.glob("[1-9]*"))) >= 2, what="a checkpoint")
    kill(queue.jobs()[0].pid)
    summary = gymlab("queue", "wait", cwd=folder).stdout
    (done,) = queue.jobs()
    status = read_status(paths)
    assert (done.state, done.attempts) == ("done", 2)
    assert (status["status"], status["sessions"]) == ("finished", 2)
    assert status["clock"]["env_steps"] >= 200_000
    assert summary.splitlines()[0] == "1 job: 1 done; 1 restarted after being killed"
    command = json.loads(paths.manifest.read_text())["command"]
    assert command[:3] == ["gymlab", "train", "CartPole-v1:ppo"]
    assert "--in-background" not in command


def test_a_wrong_recipe_is_told_at_once_and_nothing_is_queued(cli):
    done = cli("train", "CartPole-v1:ppo", "learning_rat=1", "--queue")
    assert done.code == 2
    assert "did you mean 'learning_rate'" in done.err
    assert Queue(cli.folder / "runs").jobs() == []


def test_seeds_become_jobs_of_one_group(cli):
    queue = Queue(cli.folder / "runs")
    from gymlab.cli.queue import QueuedTraining, train_requests
    from gymlab.cli.targets import RecipeArguments

    target = RecipeArguments("CartPole-v1:ppo", ["n_envs=16"], [], "10 vec_steps", None, None, [])
    requests = train_requests(queue.root, QueuedTraining(target, [3, 4], None, "two", "k"))
    assert [request.run_id for request in requests] == ["two-s3", "two-s4"]
    assert [request.key for request in requests] == ["k/s3", "k/s4"]
    assert requests[0].steps == 160
    words = ("train", "CartPole-v1:ppo", "n_envs=16", "--budget", "10 vec_steps", "--seed", "3", "--group", "two")
    assert requests[0].command == words


def test_a_list_of_tasks_is_checked_as_a_whole_before_anything_is_queued(cli):
    (cli.folder / "night.yaml").write_text(
        "- trian: CartPole-v1\n- agent: {command: [cat, '{prompt}']}\n- train: {recipe: CartPole-v1, budgets: 3}\n"
    )
    done = cli("tasks", "night.yaml")
    assert done.code == 2
    for line in ("night.yaml:1: unknown task 'trian': did you mean 'train'?", "{prompt} needs", "budgets: extra"):
        assert line in done.err
    assert Queue(cli.folder / "runs").jobs() == []


def test_every_kind_of_task_becomes_a_job_in_the_order_of_the_file(cli):
    (cli.folder / "night.yaml").write_text(
        "- smoke: all\n- results: [CartPole-v1, --jobs, 2]\n- sweep: CartPole-v1:ppo --space gamma=0.9,0.99\n"
        "- train: {recipe: CartPole-v1:ppo, seeds: '2', budget: 1k}\n- agent: [my-agent, '{runs}']\n"
    )
    told = json.loads(cli("tasks", "night.yaml", "--dry", "--json").out)["jobs"]
    assert told == [
        "smoke all", "results run CartPole-v1 --jobs 2", "sweep CartPole-v1:ppo --space gamma=0.9,0.99",
        "train CartPole-v1:ppo seed 0", "train CartPole-v1:ppo seed 1", "agent my-agent {runs}",
    ]  # fmt: skip


def test_an_external_agent_gets_its_prompt_as_a_file_and_no_shell_touches_its_words(queue, folder):
    (folder / "night.yaml").write_text(
        "- agent: {command: [cp, '{prompt_file}', 'a; touch oops'], prompt: next-steps, minutes: 1}\n"
        "- agent: ['false']\n"
    )
    done = gymlab("tasks", "night.yaml", "--wait", cwd=folder, check=False)
    assert done.returncode == 1
    assert "2 jobs: 1 done, 1 failed" in done.stdout
    assert (folder / "a; touch oops").read_text().startswith("# Next learning steps")
    assert not (folder / "oops").exists()


def test_what_a_queued_command_prints_is_kept_without_its_secrets(queue, folder):
    queue.add(JobRequest("explain", ("explain", "token=hush-hush-hush"), str(folder), retries=0))
    QueueRunner(queue).run()
    kept = queue.log_path("1").read_text()
    assert "token=***" in kept
    assert "hush" not in kept + queue.jobs()[0].message


def test_limits_are_shown_and_set_and_a_wrong_number_is_refused(cli):
    assert cli("queue", "limits", "--jobs", "3", "--steps", "5M").out == "3 jobs at once, 5M env steps\n"
    assert json.loads(cli("queue", "limits", "--json").out) == {"jobs": 3, "steps": 5_000_000}
    assert cli("queue", "limits", "--steps", "many").code == 2
    assert cli("queue", "wait").out == "0 jobs: nothing to do\n"
    assert cli("queue", "cancel").code == 2
