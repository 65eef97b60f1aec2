"""A run opened for the inspector: env, checkpoints, episodes, and the policy's output for edited observations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.core.jax_keys import run_key
from gymlab.core.types import Array, Json, Masked, Space, Tree
from gymlab.envs.gymnasium_types import Env
from gymlab.envs.wrappers.frame_stack import FrameStack
from gymlab.media.camera import Camera, rendered_text
from gymlab.media.episode_trace import (
    EpisodeTrace,
    TraceDecision,
    TraceRow,
    action_label,
    distribution_record,
    shortest_numbers,
    to_csv,
    to_json,
    to_record,
)
from gymlab.media.play_session import open_env
from gymlab.media.policy_player import PolicyPlayer, open_player
from gymlab.media.record_episode import episode_options, record_options
from gymlab.networks.distributions import to_env_action
from gymlab.recipes.resolve import read_run_recipe
from gymlab.runs.checkpoints import Loaded, load_checkpoint, read_index, steps
from gymlab.runs.paths import RunPaths
from gymlab.session.predictor import add_batch_axis
from gymlab.training.state import Policy
from gymlab.web.workers.answers import ActionFacts, AttributionAnswer, InspectorFacts, PlayedEpisode, PolicyOutput
from gymlab.web.workers.attribution import Attributor
from gymlab.web.workers.episode_pictures import PictureFolder, grid, heated
from gymlab.web.workers.observation_components import components
from gymlab.web.workers.step_table import EpisodeRequest

OnStep = Callable[[int, float], None]  # (steps so far, return so far); may raise to end it


class InspectorSession:
    """One run with its env, policy and played episodes."""

    def __init__(self, paths: RunPaths, folder: Path) -> None:
        self._paths = paths
        self._folder = folder
        self.recipe = read_run_recipe(paths.recipe)
        env = open_env(self.recipe)
        self.player = open_player(self.recipe, lambda _: env)
        stacks = [part.k for part in self.player.actor.transforms if isinstance(part, FrameStack)]
        self._stack = int(stacks[0]) if len(stacks) == 1 else 1
        self._loaded: dict[str, Loaded] = {}
        self._episodes: dict[str, tuple[EpisodeTrace, str]] = {}  # by name, with the checkpoint
        self._attributor: Attributor | None = None

    def facts(self) -> InspectorFacts:
        """Facts of the run and its spaces that a page needs before any episode."""
        settings = self.recipe.env
        space = self.player.spaces.observation
        labels = settings.observations or _own_names(self.player.env)
        raw = self.player.engine(0).spaces.observation
        index = read_index(self._paths)
        return {
            "recipe": self.recipe.name,
            "checkpoints": [str(at) for at in steps(self._paths)],
            "best": index["best"],
            "last": index["last"],
            "seed": self.recipe.eval.seed,
            "sampled": self.recipe.video.sampled,
            "max_steps": self.recipe.video.clip_steps,
            "labels": list(self.player.labels),
            "actions": _actions(self.player.spaces.action),
            "components": [part.as_json() for part in components(space, labels, self._stack)],
            "raw": [part.as_json() for part in components(raw, labels)] if self.player.actor.transforms else [],
            "gamma": self.player.return_settings.gamma,
            "lambda": self.player.return_settings.lam,
            "pictures": isinstance(self.player.env, Camera),
        }

    def loaded(self, which: str) -> Loaded:
        if which not in self._loaded:
            found = load_checkpoint(self._paths, which, with_state=False)
            self._loaded = {which: found}  # one at a time: policies of pictures are large
        return self._loaded[which]

    def episode(self, asked: EpisodeRequest, name: str, on_step: OnStep = lambda *_: None) -> PlayedEpisode:
        """Play an episode; its pictures and CSV are written to the folder under this name."""
        loaded = self.loaded(asked.checkpoint)
        usual = record_options(self.recipe, loaded, "table")
        shot = replace(
            usual,
            seed=usual.seed if asked.seed is None else asked.seed,
            greedy=usual.greedy if asked.sampled is None else not asked.sampled,
            max_steps=asked.max_steps or usual.max_steps,
        )
        how = episode_options(self.player, shot)._replace(forced=dict(asked.forced))
        recorder = _PictureRecorder(self.player.env, self._pictures(name), on_step)
        episode = self.player.play(self.player.policy(loaded.policy), how, recorder)
        recorder.end(episode)
        self._episodes[name] = (episode, asked.checkpoint)
        (self._folder / f"{name}.csv").write_text(to_csv(episode.rows), encoding="utf-8")
        return {
            "rows": [to_record(row) for row in episode.rows],
            "ended": episode.ended,
            "checkpoint": loaded.path.name,
            "seed": shot.seed,
            "sampled": not shot.greedy,
            "name": name,
            "env_files": recorder.env_files,
            "seen_files": recorder.seen_files,
            "texts": recorder.texts,
        }

    def _pictures(self, name: str) -> PictureFolder:
        return PictureFolder(self._folder, name, self.player.spaces.observation, self._stack)

    def forget(self, name: str) -> None:
        """Drop an episode and delete its pictures."""
        self._episodes.pop(name, None)
        for file in self._folder.glob(f"{name}-*.png"):
            file.unlink(missing_ok=True)

    def what_if(self, name: str, step: int, observation: Json = None) -> PolicyOutput:
        """Policy output at a step of an episode, for its observation or an edited one."""
        row, policy = self._row(name, step)
        return what_if(self.player, policy, row.observation if observation is None else observation, row.mask)

    def attribution(self, name: str, step: int) -> AttributionAnswer:
        """Gradients at a step, and a heat map where the observation is an image."""
        row, policy = self._row(name, step)
        self._attributor = self._attributor or Attributor(self.player)
        action = np.asarray(row.action)
        if isinstance(self.player.spaces.action, spaces.Discrete):
            action = action - int(self.player.spaces.action.start)
        found = self._attributor(policy, row.observation, row.mask, action)
        album = self._pictures(name)
        answer: AttributionAnswer = {"policy": to_json(found.policy), "value": to_json(found.value), "picture": ""}
        if album.shape is not None:
            drawn = grid(heated(album.tiles_of(row.observation), album.heat_of(found.policy)))
            answer["picture"] = album.write(f"heat-{step:05d}", drawn)
        return answer

    def _row(self, name: str, step: int) -> tuple[TraceRow, Policy]:
        if name not in self._episodes:
            raise UserError("that episode is no longer loaded: run it again")
        episode, checkpoint = self._episodes[name]
        if not 0 <= step < len(episode.rows):
            raise UserError(f"step {step}: the episode has {len(episode.rows)} steps")
        return episode.rows[step], self.player.policy(self.loaded(checkpoint).policy)

    def close(self) -> None:
        self.player.close()


def _own_names(env: Env) -> tuple[str, ...]:
    """Names that one of our wrappers has for its observation."""
    return tuple(env.get_wrapper_attr("names")) if env.has_wrapper_attr("names") else ()


def _actions(space: Space) -> ActionFacts:
    """Kind and sizes of the action space, for the form of a forced action."""
    if isinstance(space, spaces.Discrete):
        return {"kind": "choice", "n": int(space.n)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "choices", "sizes": [int(n) for n in space.nvec.ravel()]}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "choices", "sizes": [2] * int(np.prod(space.shape))}
    assert isinstance(space, spaces.Box), "no other is supported"
    low = [float(x) for x in space.low.ravel()]
    high = [float(x) for x in space.high.ravel()]
    return {"kind": "numbers", "size": int(np.prod(space.shape)), "low": low, "high": high}


class _PictureRecorder:
    """Writes an episode's pictures while it is played."""

    def __init__(self, env: Env, album: PictureFolder, on_step: OnStep) -> None:
        self._env = env
        self._album = album
        self._on_step = on_step
        self.env_files: list[str] = []
        self.seen_files: list[str] = []
        self.texts: list[str] = []

    def __call__(self, moment: TraceDecision) -> None:
        if isinstance(self._env, Camera):
            self.env_files.append(self._album.add_env(moment.step, self._env.picture()))
        elif self._env.render_mode == "ansi":
            self.texts.append(rendered_text(self._env))
        if seen := self._album.add_seen(moment.step, moment.observation):
            self.seen_files.append(seen)
        self._on_step(moment.step + 1, moment.return_so_far)

    def end(self, episode: EpisodeTrace) -> None:
        """Write the final picture."""
        if isinstance(self._env, Camera):
            kept = self._env.last if episode.ended != "cut" else None
            drawn = self._env.picture() if kept is None else kept
            self.env_files.append(self._album.add_env(len(episode.rows), drawn))


def what_if(player: PolicyPlayer, policy: Policy, observation: Json | Tree, mask: Array | None = None) -> PolicyOutput:
    """Policy output for an observation (JSON or arrays): greedy action, distribution, value."""
    obs, _ = add_batch_axis(player.spaces.observation, as_arrays(player.spaces.observation, observation))
    if mask is not None:
        obs = Masked(obs, np.asarray(mask, bool)[None])
    actor = player.actor
    fresh = np.ones(1, bool)
    key = run_key(0)
    decision, outlook = actor.choose(policy, obs, actor.first_carry, fresh, key, 0, greedy=True)
    action = to_env_action(player.spaces.action, decision.action[:1])[0]
    choice = decision.action[0]
    return {
        "action": to_json(np.asarray(action)),
        "label": action_label(choice if choice.ndim == 0 else np.asarray(action), player.labels),
        "probabilities": shortest_numbers(outlook["probabilities"][0]) if "probabilities" in outlook else [],
        "distribution": distribution_record(
            {n: _first(outlook[n]) for n in ("mean", "std", "choices") if n in outlook}
        ),
        "value": float(outlook["value"][0]) if "value" in outlook else None,
        "entropy": float(outlook["entropy"][0]) if "entropy" in outlook else None,
    }


def _first(tree: Tree) -> Tree:
    return jax.tree.map(lambda x: np.asarray(x[0]), tree)


def as_arrays(space: Space | None, observation: Json | Tree) -> Any:
    """JSON converted to the containers of the space; a mismatch is left for `predict` to refuse."""
    if isinstance(space, spaces.Dict) and isinstance(observation, dict):
        return {key: as_arrays(space.spaces.get(key), part) for key, part in observation.items()}
    if isinstance(space, spaces.Tuple) and isinstance(observation, list | tuple):
        inner = [*space.spaces, *[None] * len(observation)]
        return tuple(as_arrays(part, value) for part, value in zip(inner, observation, strict=False))
    return observation
