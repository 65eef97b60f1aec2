"""Records as runs would have left them."""

from gymlab.campaigns.benchmark_table.record import RunRecord, Scores


def record(score=1.0, *, seed=0, steps=None, curve=(), **more):
    known = {
        "recipe": "CartPole-v1:ppo",
        "seed": seed,
        "run_id": f"run-{seed}",
        "checkpoint": "100",
        "greedy": Scores(mean=score, std=0.0, n=100),
        "sampled": Scores(mean=score - 1, std=0.0, n=100),
        "evaluation_seed": 2**31,
        "status": "finished",
        "stop_reason": "budget",
        "env_steps": 100,
        "budget": 100,
        "seconds": 1.0,
        "threshold": 475.0,
        "steps_to_threshold": steps,
        "auc": score / 2,
        "horizon": 100,
        "curve": curve or (((steps, 475.0),) if steps else ((50, 1.0),)),
        "command": f"gymlab train CartPole-v1:ppo --seed {seed}",
        "evaluation_command": "gymlab eval RUN/best",
        "versions": {"gymlab": "0.1.0"},
        "commit": "abc",
        "cores": 2,
        "device": "cpu",
        "settings": {},
    }
    return RunRecord(**{**known, **more})
