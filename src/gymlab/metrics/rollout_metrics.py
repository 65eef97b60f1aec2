"""Clocks, what the envs gave (`roll/`), and what their observations and rewards look like (`env/`)."""

from __future__ import annotations

from gymlab.metrics.metric import POSITIVE, SHARE, UNBOUNDED, Metric

_WINDOW = "the last 100 finished training episodes (fewer at the start: see roll/return_window)"

_FEATURE = "of each observation feature, before normalising"

METRICS = (
    # Clocks.
    Metric("updates", "Updates done: one rollout and what was learnt from it.", "updates", "count", 3, POSITIVE,
           monotonic=True, settings=("budget", "n_steps")),
    Metric("vec_steps", "Vectorised env.step calls. Does not depend on n_envs, so runs with different n_envs overlay.",
           "steps", "count", 1, POSITIVE, monotonic=True, settings=("budget",)),
    Metric("env_steps", "Transitions: vec_steps times n_envs. What sample efficiency is counted in.", "steps", "count",
           2, POSITIVE, monotonic=True, settings=("budget", "n_envs")),
    Metric("gradient_steps", "Steps the optimiser has taken. None in a skipped update, fewer where target_kl ends one.",
           "steps", "count", 6, POSITIVE, monotonic=True, settings=("epochs", "batch_size", "target_kl")),
    Metric("episodes", "Training episodes finished.", "episodes", "count", 4, POSITIVE, monotonic=True),
    Metric("seconds", "Wall-clock time of training, over all sessions of the run.", "seconds", "duration", 5, POSITIVE,
           monotonic=True, highlight="blue"),
    # Episodes.
    Metric("roll/return_mean", f"Mean return of {_WINDOW}: the env's own reward, summed, under the policy that "
           "explores.", "return", ".2f", 1, "return", "up", healthy="Rises, then levels off. Flat from the start: "
           "nothing is learnt. A fall that does not recover: the policy was pushed too far in one update.",
           settings=("learning_rate", "n_steps", "gamma", "entropy_coef"), highlight="bold", fold="last"),
    Metric("roll/return_std", f"Standard deviation of the returns of {_WINDOW}.", "return", ".2f", 2, "return_spread",
           healthy="Largest while the policy is half learnt; near 0 at the end where the task allows it.", fold="last"),
    Metric("roll/return_min", f"Lowest return of {_WINDOW}.", "return", ".2f", 32, "return", "up", fold="last"),
    Metric("roll/return_max", f"Highest return of {_WINDOW}.", "return", ".2f", 31, "return", "up",
           healthy="Rises first: what exploration finds now is what the mean can reach later.", fold="last"),
    Metric("roll/return_window", "How many episodes roll/return_mean is a mean of. Below 100 the window is partial and "
           "no stop rule looks at it.", "episodes", ".0f", 33, (0.0, 100.0), fold="last"),
    Metric("roll/return_hist", f"Returns of {_WINDOW}, by size.", "return", ".2f", 80, "return", histogram=True,
           healthy="One hill that moves right. Two hills: some episodes go well and others fail."),
    Metric("roll/length_mean", f"Mean length of {_WINDOW}.", "steps", ".1f", 3, "length", healthy="Goes with the "
           "return where surviving pays (CartPole) and against it where speed pays (MountainCar). At the time limit in "
           "every episode: the task is never finished.", settings=("max_episode_steps",), fold="last"),
    Metric("roll/length_std", f"Standard deviation of the lengths of {_WINDOW}.", "steps", ".1f", 34, "length_spread",
           fold="last"),
    Metric("roll/length_min", f"Shortest of {_WINDOW}.", "steps", ".0f", 35, "length", fold="last"),
    Metric("roll/length_max", f"Longest of {_WINDOW}.", "steps", ".0f", 36, "length", fold="last"),
    Metric("roll/length_hist", f"Lengths of {_WINDOW}, by size.", "steps", ".0f", 81, "length", histogram=True),
    Metric("roll/episodes", "Episodes that finished in this rollout.", "episodes", ".0f", 4, "rollout",
           healthy="0 for many updates: no episode ends, so no return is known. Longer rollouts or a time limit help.",
           settings=("n_steps", "n_envs", "max_episode_steps")),
    Metric("roll/terminated", "Steps of this rollout at which the task itself ended: nothing is bootstrapped past "
           "them.", "steps", ".0f", 37, "rollout"),
    Metric("roll/truncated", "Steps of this rollout at which a time limit cut an episode: its future is bootstrapped.",
           "steps", ".0f", 38, "rollout", settings=("max_episode_steps",)),
    # Rewards, actions and transitions of the rollout.
    Metric("roll/reward_mean", "Mean reward per step, the env's own.", "reward", ".4g", 10, UNBOUNDED, "up",
           healthy="0 throughout: the reward is never found."),
    Metric("roll/reward_std", "Standard deviation of the rewards of this rollout.", "reward", ".4g", 39, POSITIVE,
           healthy="0: every step is rewarded alike and only the length of episodes can teach anything."),
    Metric("roll/reward_min", "Lowest reward of this rollout.", "reward", ".4g", 40, UNBOUNDED, fold="min"),
    Metric("roll/reward_max", "Highest reward of this rollout.", "reward", ".4g", 41, UNBOUNDED, fold="max"),
    Metric("roll/reward_nonzero", "Share of steps with a reward other than 0.", "share", ".3f", 42, SHARE,
           healthy="Near 0: the reward is sparse, and exploration decides whether anything is learnt.",
           settings=("entropy_coef", "wrappers")),
    Metric("roll/reward_hist", "Rewards of this rollout, the env's own, by size.", "reward", ".4g", 82, UNBOUNDED,
           histogram=True),
    Metric("roll/train_reward_mean", "Mean reward per step as learning sees it: shaped, clipped or scaled, before "
           "normalising. Equal to roll/reward_mean without such wrappers.", "reward", ".4g", 43, UNBOUNDED,
           settings=("wrappers",)),
    Metric("roll/train_reward_std", "Standard deviation of the rewards of this rollout as learning sees them.",
           "reward", ".4g", 44, POSITIVE, settings=("wrappers",)),
    Metric("roll/action_mean", "Mean of the actions as the env received them: the index of discrete ones, all "
           "components together.", "action", ".3f", 45, "action", healthy="In the middle of the space before the first "
           "update. At an edge: the policy is saturated."),
    Metric("roll/action_mean/*", "Mean of one component of the actions as the env received them.", "action", ".3f", 60,
           "action", sparse=True),
    Metric("roll/action_std", "Standard deviation of the actions as the env received them.", "action", ".3f", 46,
           "action_spread", healthy="Shrinks slowly as the policy makes up its mind. Near 0 early: exploration has "
           "ended too soon.", settings=("entropy_coef", "log_std_init")),
    Metric("roll/action_std/*", "Standard deviation of one component of the actions as the env received them.",
           "action", ".3f", 61, "action_spread", sparse=True),
    Metric("roll/action_clipped", "Share of continuous action components that lay outside the space and were cut to "
           "its edge.", "share", ".3f", 47, SHARE, healthy="A third where one std fills the space. Above 0.4: much "
           "of the exploration is lost at the edges.", settings=("log_std_init",)),
    Metric("roll/actions/hist", "How often each discrete action was taken in this rollout, or where continuous ones of "
           "one component lay.", "action", ".3g", 84, "action_bins", histogram=True, healthy="About equal at the "
           "start. One action alone early: the policy has collapsed.", settings=("entropy_coef",)),
    Metric("roll/actions/hist/*", "The same of one component of the actions.", "action", ".3g", 85, "action_bins",
           histogram=True, settings=("entropy_coef",)),
    Metric("roll/action_share/*", "Share of the rollout's discrete actions that were this one; `2.1` is choice 1 of "
           "component 2.", "share", ".3f", 62, SHARE, healthy="About equal at the start. One action near 1 early: the "
           "policy has collapsed.", settings=("entropy_coef",), sparse=True),
    Metric("roll/stale_fraction", "REINFORCE: share of the transitions used that an older policy chose, because their "
           "episode ended in a later rollout.", "share", ".3f", 48, SHARE, healthy="Lower is sounder. Rollouts as long "
           "as an episode bring it towards 0.", settings=("n_steps", "stale")),
    Metric("roll/discarded_transitions", "REINFORCE: transitions so far that were not learnt from.", "steps", "count",
           50, POSITIVE, "down", monotonic=True, healthy="0. A skipped update (on_nan: skip), or a resumed run whose "
           "envs could not be restored, loses those of open episodes."),
    Metric("roll/used_transitions", "REINFORCE: transitions whose episode ended, used in this update.", "steps",
           "count", 49, POSITIVE, healthy="0: no episode ended, nothing was learnt.", settings=("n_steps", "n_envs")),
    # Observations and rewards of the envs.
    Metric("env/obs_mean", "Mean over all observation features of this rollout, before normalising.", "observation",
           ".4g", 1, "observation", settings=("wrappers",), sparse=True),
    Metric("env/obs_std", "Standard deviation over all observation features of this rollout, before normalising.",
           "observation", ".4g", 2, "observation_spread", healthy="Far from 1, or features of very different size: "
           "normalise observations.", settings=("normalize.obs",), sparse=True),
    Metric("env/obs_min", "Lowest observation feature of this rollout, before normalising.", "observation", ".4g", 3,
           "observation", sparse=True),
    Metric("env/obs_max", "Highest observation feature of this rollout, before normalising.", "observation", ".4g", 4,
           "observation", sparse=True),
    Metric("env/obs_mean/*", f"Mean {_FEATURE}.", "observation", ".4g", 40, "observation", sparse=True),
    Metric("env/obs_std/*", f"Standard deviation {_FEATURE}.", "observation", ".4g", 41, "observation_spread",
           healthy="0: the feature never changes and carries no information.", settings=("normalize.obs",),
           sparse=True),
    Metric("env/obs_min/*", f"Lowest value {_FEATURE}.", "observation", ".4g", 42, "observation", sparse=True),
    Metric("env/obs_max/*", f"Highest value {_FEATURE}.", "observation", ".4g", 43, "observation", sparse=True),
    Metric("env/obs_hist", "The rollout's observations, all features together, before normalising, by size.",
           "observation", ".4g", 83, "observation", histogram=True, healthy="A few values far from all others: one "
           "feature has a scale of its own; normalise observations.", settings=("normalize.obs",)),
    Metric("env/reward_mean/*", "Mean per step of one named part of the training reward.", "reward", ".4g", 50,
           UNBOUNDED, settings=("wrappers",)),
    Metric("env/reward_share/*", "Share of one named part in the sum of all parts' sizes.", "share", ".3f", 51, SHARE,
           healthy="One part near 1: the others hardly teach anything.", settings=("wrappers",)),
    Metric("env/reward_nonzero/*", "Share of steps at which one named part of the reward is not 0.", "share", ".3f", 52,
           SHARE, settings=("wrappers",)),
    Metric("env/copies", "1 where envs reset with different seeds gave exactly the same for the same actions, else 0; "
           "found out once, before the first update.", "0 or 1", ".0f", 11, SHARE, "down", healthy="0. 1: parallel "
           "envs differ only by the policy's dice.", settings=("n_envs", "wrappers")),
    Metric("env/identical", "Share of parallel envs whose observation equals another env's at the end of the rollout.",
           "share", ".3f", 10, SHARE, "down", healthy="0 where observations are continuous. Near 1: the copies do the "
           "same thing and add no information.", settings=("n_envs", "wrappers"), sparse=True),
)  # fmt: skip
