"""What came of it (`eval/`, `score/`), at which settings (`hp/`), and what it took (`time/`, `sys/`)."""

from __future__ import annotations

from gymlab.metrics.metric import POSITIVE, SHARE, Metric


def _evaluated(mode: str, about: str, first: int) -> tuple[Metric, ...]:
    over = f"evaluation episodes, {about}"
    return (
        Metric(f"eval/{mode}_mean", f"Mean return of {over}.", "return", ".2f", first, "return", "up",
               healthy="Goes with roll/return_mean. Far below it: the other way of acting does not work yet, or "
               "evaluation differs from training.", settings=("eval.episodes", "solved_by"), highlight="bold"),
        Metric(f"eval/{mode}_std", f"Standard deviation of the returns of {over}.", "return", ".2f", first + 40,
               "return_spread", healthy="The error of the mean is this over the root of the number of episodes.",
               settings=("eval.episodes",)),
        Metric(f"eval/{mode}_low", f"Lower end of the 95 % bootstrap interval of the mean return of {over}.", "return",
               ".2f", first + 41, "return", "up", healthy="Where the intervals of two evaluations do not overlap, one "
               "policy is better.", settings=("eval.episodes",)),
        Metric(f"eval/{mode}_high", f"Upper end of the 95 % bootstrap interval of the mean return of {over}.", "return",
               ".2f", first + 42, "return", "up", settings=("eval.episodes",)),
        Metric(f"eval/{mode}_iqm", f"Interquartile mean (the mean of the middle half) of the returns of {over}.",
               "return", ".2f", first + 43, "return", "up", healthy="Near the mean. Far from it: a few episodes go "
               "quite another way than most.", settings=("eval.episodes",)),
        Metric(f"eval/{mode}_length", f"Mean length of {over}.", "steps", ".1f", first + 30, "length"),
        Metric(f"eval/{mode}_episodes", f"Number of {over}.", "episodes", ".0f", first + 31, POSITIVE,
               settings=("eval.episodes", "final_episodes")),
        Metric(f"eval/{mode}_truncated", f"Share of {over}, that the time limit ended.", "share", ".2f", first + 32,
               SHARE, settings=("max_episode_steps",)),
    )  # fmt: skip


METRICS = (
    # Evaluations, scores and hyperparameters.
    *_evaluated("greedy", "taking the likeliest action", 1),
    *_evaluated("sampled", "drawing actions from the policy", 5),
    Metric("eval/compiled", "1 where the evaluation of this row was played on the compiled engine, 0 where on the "
           "Gymnasium env. Periodic evaluations of an env with a compiled port are compiled; confirming and final ones "
           "never are.", "0 or 1", ".0f", 60, SHARE, settings=("engine", "wrappers"), fold="last"),
    Metric("score/steps_to_threshold", "env_steps at the first evaluation whose mean return reached solved_at; none "
           "where no evaluation did.", "steps", "count", 2, POSITIVE, "down",
           settings=("solved_at", "eval.every", "learning_rate", "n_envs"), fold="last"),
    Metric("score/vec_steps_to_threshold", "The same in vec_steps, comparable across n_envs.", "steps", "count", 41,
           POSITIVE, "down", settings=("solved_at", "eval.every", "learning_rate", "n_steps"), fold="last"),
    Metric("score/first_return", "Mean return of the first episodes that ended in training: where the curve under "
           "which score/auc is the area begins.", "return", ".2f", 61, "return", settings=("env.id",), fold="last"),
    Metric("score/auc", "Mean evaluated return over the whole budget: the area under the curve of evaluations, divided "
           "by the budget. The one number to rank runs of an env by.", "return", ".2f", 1, "return", "up",
           settings=("eval.every", "budget", "learning_rate"), fold="last"),
    Metric("hp/*", "The value of a hyperparameter in this update, for every number of the algorithm's block.", "",
           ".4g", 1, "schedule", fold="last"),
    # Time and machine.
    Metric("time/progress", "Share of the budget that is done.", "share", "percent", 1, SHARE, "up", monotonic=True,
           settings=("budget",)),
    Metric("time/sps", "env_steps per second since the last row that measured it.", "steps/s", "count", 2, POSITIVE,
           "up", healthy="Steady after the first updates, which compile. A lasting drop: the machine is busy or "
           "episodes have become dearer.", settings=("n_envs", "engine", "vectorization", "workers"), fold="last"),
    Metric("time/sps_mean", "env_steps per second since the session began, evaluations and compiling included.",
           "steps/s", "count", 3, POSITIVE, "up", settings=("n_envs", "engine", "eval.every"), fold="last"),
    Metric("time/collect", "Seconds of this update spent stepping envs and choosing actions (host engines).", "seconds",
           "duration", 10, POSITIVE, "down", healthy="The larger part: faster envs, more of them or processes help.",
           settings=("n_envs", "n_steps", "vectorization", "workers"), fold="sum"),
    Metric("time/update", "Seconds of this update spent learning (host engines).", "seconds", "duration", 11, POSITIVE,
           "down", settings=("epochs", "batch_size", "hidden", "device"), fold="sum"),
    Metric("time/evaluate", "Seconds an evaluation took.", "seconds", "duration", 40, POSITIVE, "down",
           settings=("eval.every", "eval.episodes", "final_episodes"), fold="sum"),
    Metric("time/evaluate_wait", "Seconds training waited for an evaluation that runs beside it.", "seconds",
           "duration", 44, POSITIVE, "down", healthy="0: it was ready when it was due.",
           settings=("eval.every", "eval.episodes"), fold="sum"),
    Metric("time/checkpoint", "Seconds a checkpoint took to write.", "seconds", "duration", 41, POSITIVE, "down",
           settings=("checkpoints.every",), fold="sum"),
    Metric("time/record", "Seconds spent on metric rows since the last one that says so.", "seconds", "duration", 42,
           POSITIVE, "down", fold="sum"),
    Metric("time/compile", "Seconds spent compiling since the last row that says so, in all threads.", "seconds",
           "duration", 43, POSITIVE, "down", healthy="Once per session, less where the compilation cache has it.",
           fold="sum"),
    Metric("sys/rss", "Memory of this process and of its env processes.", "bytes", "bytes", 1, POSITIVE, "down",
           healthy="Flat after the first updates. A steady climb is a leak, most often in an env.",
           settings=("n_envs", "n_steps"), fold="last"),
    Metric("sys/cpu", "CPU seconds per second of this process and of its env processes: 2.0 is two busy cores.",
           "cores", ".2f", 2, POSITIVE, settings=("workers", "vectorization"), fold="last"),
    Metric("sys/gpu_memory", "Memory in use on the GPU.", "bytes", "bytes", 3, POSITIVE, "down",
           settings=("device", "n_envs", "batch_size"), fold="last"),
    Metric("sys/gpu_load", "Share of time the GPU was busy.", "share", ".2f", 4, SHARE, "up", settings=("device",),
           fold="last"),
    Metric("sys/checkpoint_bytes", "Size of the checkpoint that was written.", "bytes", "bytes", 35, POSITIVE, "down",
           healthy="Constant.", settings=("hidden",), fold="last"),
    Metric("sys/trackers_down", "Trackers that cannot be reached, in the rows where that changed. The store has "
           "everything, and they are caught up later.", "trackers", ".0f", 7, POSITIVE, "down", healthy="0."),
    Metric("sys/skipped_updates", "Updates undone so far because a number went bad in them (on_nan: skip).", "updates",
           ".0f", 6, POSITIVE, "down", monotonic=True, healthy="0. Anything else: an env or the learning rate is to "
           "blame.", settings=("learning_rate", "max_grad_norm")),
    Metric("env/restarts", "Envs that were made anew so far after a fault of theirs.", "envs", ".0f", 7, POSITIVE,
           "down", monotonic=True, healthy="0."),
)  # fmt: skip
