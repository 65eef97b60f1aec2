"""Killing runs and continuing them until they are done."""

import random
import signal
import time

from tests.running import assert_same_run, gymlab, start

TINY = ["policy.hidden=[16,16]", "eval.episodes=2", "eval.final_episodes=3", "eval.every=20%", "--full-budget"]
SMALL_PPO = ["n_envs=8", "n_steps=32", "batch_size=128", "epochs=4", "learning_rate=lin_1e-3"]
PICTURES = ["n_envs=4", "n_steps=32", "batch_size=128", "epochs=1"]
CASES = {
    "ppo cartpole compiled": ["CartPole-v1:ppo", *SMALL_PPO, "normalize.obs=true", "--budget", "200k"],
    "ppo cartpole host": [
        "CartPole-v1:ppo",
        *SMALL_PPO,
        "normalize.reward=true",
        "--budget",
        "60k",
        "--engine",
        "gymnasium",
    ],
    "ppo cartpole evaluated aside": ["CartPole-v1:ppo", *SMALL_PPO, "eval.mode=async", "--budget", "200k"],
    "ppo lunar lander": ["LunarLander-v3:ppo", *SMALL_PPO, "normalize.obs=true", "--budget", "40k"],
    "ppo frozen lake": ["FrozenLake-v1:ppo", *SMALL_PPO, "--budget", "400k"],
    "ppo pong objects": ["ALE/Pong-v5:objects", *SMALL_PPO, "env.max_episode_steps=200", "--budget", "20k"],
    "ppo pong pictures": ["ALE/Pong-v5:rgb", *PICTURES, "env.max_episode_steps=200", "--budget", "3k"],
    "a2c cartpole compiled": ["CartPole-v1:a2c", "--budget", "400k"],
    "a2c cartpole host": ["CartPole-v1:a2c", "n_steps=16", "--budget", "60k", "--engine", "gymnasium"],
    "a2c lunar lander": ["LunarLander-v3:a2c", "n_envs=8", "n_steps=16", "--budget", "40k"],
    "a2c frozen lake": ["FrozenLake-v1:a2c", "n_envs=8", "--budget", "400k"],
    "reinforce cartpole compiled": ["CartPole-v1:reinforce", "n_steps=64", "--budget", "400k"],
    "reinforce cartpole host": ["CartPole-v1:reinforce", "n_steps=64", "--budget", "60k", "--engine", "gymnasium"],
    "reinforce lunar lander": ["LunarLander-v3:reinforce", "n_envs=4", "n_steps=128", "--budget", "30k"],
    "reinforce frozen lake": ["FrozenLake-v1:reinforce", "n_envs=8", "n_steps=50", "--budget", "400k"],
}


def train(case, name, folder, **environ):
    """The uninterrupted run of a case."""
    return gymlab("train", *CASES[case], *TINY, "--run-id", name, "--json", cwd=folder, check=not environ, **environ)


def finished(name, folder):
    return "has finished" in gymlab("resume", name, cwd=folder).stdout


def kill_until_done(case, folder, kills, seed):
    """Kill a run at random moments, resuming each time; the number of kills that hit a running process."""
    rng = random.Random(f"{case} {seed}")
    command = ["train", *CASES[case], *TINY, "--run-id", "killed", "-q"]
    hits = 0
    for _ in range(kills):
        process = start(*command, cwd=folder)
        run = folder / "runs" / "killed"
        while process.poll() is None and not (run / "checkpoints" / "0").exists():
            time.sleep(0.01)
        # Start-up takes longer than these runs train, so most of the wait lies beyond it.
        time.sleep(rng.uniform(0.0, 4.0))
        alive = process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
        hits += alive
        command = ["resume", "killed", "-q"]
        if not alive:
            break
    gymlab("resume", "killed", cwd=folder)
    assert_same_run(folder / "runs/whole", folder / "runs/killed")
    return hits
