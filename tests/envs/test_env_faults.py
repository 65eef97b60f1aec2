"""Envs that raise, hang, return nonsense or die with their process: told in full, and survived where that is wished."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from gymlab.core.errors import RunError
from gymlab.core.rng import episode_seed
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.processes import ProcessEngine
from gymlab.envs.settings import EnvSettings
from gymlab.recipes.resolve import resolve
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.paths import RunPaths
from gymlab.session.session import Options
from gymlab.session.start import train
from tests.running import environment, metric_rows, start
from tests.session.killing import SMALL_PPO, TINY
from tests.stepping import actions, dump, play
from tests.waiting import wait_until_gone

SEED = 5


def faulty(way, *, on_error="stop", timeout=1.0, **kwargs):
    return EnvSettings(
        id="tests.example_envs:Faulty-v0", kwargs={"way": way, **kwargs}, on_error=on_error, timeout=timeout
    )


def sync(settings, n=4, seed=SEED):
    return GymnasiumEngine(settings, n, seed)


def processes(settings, n=4):
    return ProcessEngine(settings, n, SEED, workers=2)


ENGINES = pytest.mark.parametrize("make", [sync, processes])
ONES = np.ones(4, int)
LUCKY = 0  # a run seed whose very first episode is sound


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("raise", "RuntimeError: the simulator fell over\nTraceback"),
        ("nan", r"observation holds NaN or infinity: \[nan, nan\]"),
        ("infinity", r"observation holds NaN or infinity: \[0.0, inf\]"),
        ("reward", "reward holds NaN or infinity: nan"),
        ("shape", r"observation has shape \(1,\), its space says \(2,\)"),
        ("dtype", "observation has dtype complex64, its space says float32"),
    ],
)
def test_a_fault_stops_the_run_and_names_env_episode_seed_step_and_action(way, told):
    # Far beyond the first steps: every observation is checked, not only the first ones.
    with sync(faulty(way, k=35, share=0.3)) as engine:
        engine.reset()
        with pytest.raises(RunError, match=told) as error:
            play(engine, [ONES] * 400)
        snapshot = engine.snapshot()
    env = int(str(error.value).split()[1])
    episode = snapshot["episode"][env]
    assert str(error.value).startswith(
        f"env {env} (tests.example_envs:Faulty-v0) failed in episode {episode} "
        f"(seed {episode_seed(SEED, env, episode)}) "
        "at step 35 with action 1: "
    )


@ENGINES
def test_a_last_observation_of_an_episode_that_is_no_number_is_a_fault_too(make):
    # Its value counts nothing where the episode truly ended, but 0 * NaN is NaN, normalisers see it, and an env whose
    # state went bad at its end is broken. So it is told, not forgiven. Episodes end at step 40.
    with make(faulty("nan", k=40)) as engine:
        engine.reset()
        play(engine, [ONES] * 39)
        with pytest.raises(RunError, match=r"^env 0 .* at step 40 with action 1: observation holds NaN or infinity"):
            engine.step(ONES)


def test_a_killed_worker_stops_the_run_and_names_what_its_envs_were_doing():
    with processes(faulty("raise", share=0.0)) as engine:
        engine.reset()
        play(engine, [ONES] * 7)
        pids = engine.pids
        os.kill(pids[1], signal.SIGKILL)
        with pytest.raises(RunError) as error:
            engine.step(ONES)
    told = str(error.value)
    assert told.startswith(
        f"env process 1 (pid {pids[1]}) with envs 2-3 of tests.example_envs:Faulty-v0 was killed by signal 9"
    )
    for env in (2, 3):
        assert f"\nenv {env} was in episode 0 (seed {episode_seed(SEED, env, 0)}) at step 8 with action 1" in told
    wait_until_gone(pids)


@ENGINES
@pytest.mark.parametrize("way", ["raise", "nan", "shape"])
def test_a_broken_transition_is_cut_and_the_env_goes_on_in_its_next_episode(make, way, caplog):
    with make(faulty(way, on_error="restart", k=25, share=0.6)) as engine:
        last = engine.reset().obs.copy()
        episode = np.zeros(4, int)
        cuts = 0
        for _ in range(200):
            step = engine.step(ONES)
            cut = step.truncated
            assert not step.terminated[cut].any()
            assert not step.reward[cut].any()
            assert (step.successor[cut] == last[cut]).all()
            assert (step.reward[~cut] == 1).all()
            assert (step.fresh == (cut | step.terminated)).all()
            episode += step.fresh
            assert (engine.snapshot()["episode"] == episode).all()
            assert (step.obs[step.fresh, 1] == 0).all()  # the new episode's first observation
            first = [np.random.default_rng(episode_seed(SEED, i, episode[i])) for i in range(4)]
            drawn = np.array([rng.random(dtype=np.float32) for rng in first])
            assert (step.obs[:, 0] == drawn).all()  # each episode has the seed that is its own
            last = step.obs.copy()
            cuts += int(cut.sum())
        assert engine.restarts == cuts > 5
    assert len(caplog.records) == 1  # of its kind
    assert caplog.records[0].message.startswith("env ")
    assert "counted in env/restarts" in caplog.records[0].message


def test_restarts_are_the_same_in_any_process_and_survive_a_resume():
    settings = faulty("raise", on_error="restart", k=12, share=0.3)
    with sync(settings) as here, processes(settings) as there:
        moves = actions(here, 240)
        assert dump(here.reset()) == dump(there.reset())
        assert play(here, moves[:120]) == play(there, moves[:120])
        snapshot = there.snapshot()
        assert {k: v.tobytes() for k, v in here.snapshot().items()} == {k: v.tobytes() for k, v in snapshot.items()}
        expected = play(here, moves[120:])
        with sync(settings) as resumed:
            assert resumed.restore(snapshot).exact
            assert resumed.restarts == there.restarts > 0
            assert play(resumed, moves[120:]) == expected
            assert resumed.restarts == here.restarts


def test_an_env_that_never_works_stops_the_run():
    with pytest.raises(RunError, match=r"in episode 0 .* at its reset: RuntimeError: no reset today"):
        sync(faulty("reset", on_error="restart"))
    with sync(faulty("raise", on_error="restart", k=1)) as engine:
        engine.reset()
        with pytest.raises(RunError, match=r"the simulator fell over(.|\n)*restarted 20 times within 1000 env steps"):
            play(engine, [ONES] * 10)
    with sync(faulty("reset", on_error="restart", share=0.8), n=1, seed=LUCKY) as engine:
        engine.reset()
        with pytest.raises(RunError, match=r"at its reset(.|\n)*failed 3 times in a row"):
            play(engine, [np.ones(1, int)] * 300)


def test_an_env_that_hangs_is_named_within_a_second_of_the_timeout():
    with processes(faulty("hang", k=3)) as engine:
        engine.reset()
        play(engine, [ONES] * 2)
        with pytest.raises(RunError) as error:
            engine.step(ONES)
        pids = engine.pids
    told = str(error.value)
    assert told.startswith("env process 0 (pid ")
    assert "with envs 0-1 of tests.example_envs:Faulty-v0 did not answer for 1 s: an env hangs\nenv 0 (tests" in told
    assert f"failed in episode 0 (seed {episode_seed(SEED, 0, 0)}) at step 3 with action 1: it hangs\nTraceback" in told
    assert told.count('File "') == 2  # from the env's own frame to
    assert "time.sleep(3600)" in told
    wait_until_gone(pids)


@pytest.mark.parametrize("way", ["hang", "exit"])
def test_a_fault_from_outside_leaves_no_trace(way, tmp_path, caplog):
    # It happens once: the step is taken again in a new process and the run is the one without the fault.
    settings = faulty(way, on_error="restart", k=33, once=str(tmp_path / "done"))
    with sync(faulty(way, share=0.0)) as sound, processes(settings) as engine:
        moves = actions(engine, 100)
        assert dump(sound.reset()) == dump(engine.reset())
        assert play(sound, moves) == play(engine, moves)
        assert engine.restarts == 1
    assert "33 with action" in caplog.text


@pytest.mark.parametrize(("way", "lost"), [("spin", 2), ("exit", 3)])
def test_an_env_that_always_takes_its_process_down_is_cut_and_the_others_are_left_alone(way, lost):
    # Each env fails in some of its episodes at step 10: 4 envs, 2 processes.
    settings = faulty(way, on_error="restart", k=10, share=0.3, timeout=0.5)
    with sync(faulty("raise", on_error="restart", k=10, share=0.3)) as here, processes(settings) as there:
        moves = actions(here, 30)
        assert dump(here.reset()) == dump(there.reset())
        assert play(here, moves) == play(there, moves)  # as if it had only raised
        assert there.restarts == lost * here.restarts > 0


def children(pid):
    """The processes that a process has started."""
    try:
        found = [Path(f"/proc/{pid}/task/{task}/children").read_text() for task in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(child) for line in found for child in line.split()]


def test_workers_killed_at_any_moment_even_while_they_start_change_nothing():
    settings = EnvSettings(id="LunarLander-v3", on_error="restart")
    rng = random.Random(1)
    with GymnasiumEngine(settings, 4, SEED) as sound, ProcessEngine(settings, 4, SEED, workers=2) as engine:
        moves = actions(engine, 300)
        expected = [dump(sound.reset()), *play(sound, moves)]
        over = threading.Event()

        def killer():
            for _ in range(6):
                over.wait(rng.uniform(0.0, 1.0))
                if over.is_set():
                    return
                with suppress(ProcessLookupError):
                    os.kill(rng.choice(engine.pids), signal.SIGKILL)

        thread = threading.Thread(target=killer)
        thread.start()
        try:
            got = [dump(engine.reset())]
            for move in moves:
                got.append(dump(engine.step(move)))
                time.sleep(0.005 if thread.is_alive() else 0)
        finally:
            over.set()
            thread.join()
        assert got == expected
        assert engine.restarts > 1
        pids = engine.pids
    wait_until_gone(pids)


PPO = [*SMALL_PPO, "normalize.reward=true", *TINY, "env.on_error=restart"]  # compiled by other tests here already


def assert_same_but_restarts(one, two):
    a, b = metric_rows(one), metric_rows(two)
    assert [name for name in a if a[name] != b[name]] in ([], ["env/restarts"])
    for which in ("last", "best"):
        left, right = (load_checkpoint(RunPaths(run), which) for run in (one, two))
        assert left.path.name == right.path.name
        kept = [{**loaded.info["features"], "alerts": None} for loaded in (left, right)]  # alerts count restarts too
        assert kept[0] == kept[1]
        for mine, theirs in ((left.policy, right.policy), (left.state, right.state)):
            assert mine.keys() == theirs.keys()
            differ = [name for name in mine if mine[name].tobytes() != theirs[name].tobytes()]
            assert differ in ([], ["groups/0/env/restarts"])
    return int(right.state["groups/0/env/restarts"][0])


def kill_workers(process, pause, most):
    """SIGKILL a random env process of a run again and again; every pid it ever had, and the number of kills."""
    rng, seen, kills = random.Random(3), set(), 0
    while process.poll() is None:
        time.sleep(rng.uniform(*pause))
        workers = children(process.pid)
        seen.update(workers)
        if workers and kills < most:
            with suppress(ProcessLookupError):
                os.kill(rng.choice(workers), signal.SIGKILL)
                kills += 1
    return seen, kills


def trained(env, budget, root, *more):
    settings = [text for text in (*PPO, *more) if "=" in text]
    recipe = resolve(env, settings, budget=budget, engine="gymnasium", imports=["tests.envs"]).recipe
    return train(recipe, Options(run_id="whole", full_budget=True), root).run_dir


def killed_and_sound(folder, budget, pause, most):
    whole = trained("CartPole-v1:ppo", budget, folder)
    run = ["CartPole-v1:ppo", *PPO, "vectorization=processes", "workers=2", "--budget", budget, "--run-id", "killed"]
    process = start("train", *run, cwd=folder)
    while process.poll() is None and not (folder / "runs/killed/checkpoints/0").exists():
        time.sleep(0.01)
    pids, kills = kill_workers(process, pause, most)
    told, _ = process.communicate()
    assert process.returncode == 0, told
    assert told.count("was killed by signal 9") == 1  # of many
    restarts = assert_same_but_restarts(whole, folder / "runs/killed")
    assert kills >= restarts > 0
    wait_until_gone(pids)
    return restarts


@pytest.mark.slow
def test_a_run_whose_workers_are_killed_is_the_run_that_was_left_alone(folder):
    assert killed_and_sound(folder, "5k", (0.2, 0.8), 5) >= 2


@pytest.mark.slow
def test_a_run_whose_workers_are_killed_every_five_seconds_for_two_minutes(folder):
    assert killed_and_sound(folder, "1200k", (4.5, 5.5), 1000) >= 15


def test_restarts_of_a_run_are_a_metric(folder):
    run = trained("CartPole-v1:ppo", "5k", folder, 'env.wrappers=[{"tests.example_envs:Trips": 15}]')
    counts = np.frombuffer(metric_rows(run)["env/restarts"])
    saved = load_checkpoint(RunPaths(run)).state["groups/0/env/restarts"]
    assert (np.diff(counts) >= 0).all()
    assert counts[-1] == saved[0] > 10


TRAINER = """
import sys
import numpy as np
from gymlab.envs.engines.processes import ProcessEngine
from gymlab.envs.settings import EnvSettings
from gymlab.session.start import train
from gymlab.session.session import Options
from gymlab.recipes.resolve import resolve

way, share, timeout = sys.argv[1:]
kwargs = {"way": way, "k": 3, "share": float(share)}
settings = EnvSettings(id="tests.example_envs:Faulty-v0", kwargs=kwargs, timeout=float(timeout))
engine = ProcessEngine(settings, 2, 0, workers=2)
engine.reset()
for step in range(10**9):
    if step == 2:
        print("ready", flush=True)
    engine.step(np.zeros(2, int))
"""


def killed_trainer(state):
    """The env processes of a trainer that was killed while they were in this state."""
    way, share = {"hanging": ("hang", "1"), "spinning in C": ("spin", "1")}.get(state, ("raise", "0"))
    process = subprocess.Popen(
        [sys.executable, "-c", TRAINER, way, share, "0.5" if state == "stepping" else "60"],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    workers: list[int] = []
    while process.poll() is None and len(workers) < 2:
        workers = children(process.pid)
        time.sleep(0.005)
    if state != "starting":
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
    if state == "stepping":  # Ctrl-Z: time in which everybody stood still does not count
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(3.0)
        os.killpg(process.pid, signal.SIGCONT)
        time.sleep(0.5)
        assert process.poll() is None
    process.kill()
    process.communicate()
    wait_until_gone(workers)
    return workers


def test_no_env_process_outlives_a_killed_trainer():
    states = ["starting", "stepping", "hanging", "spinning in C"]
    with ThreadPoolExecutor(len(states)) as pool:
        for workers in pool.map(killed_trainer, states):
            assert len(workers) == 2
