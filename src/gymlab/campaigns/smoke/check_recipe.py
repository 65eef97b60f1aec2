"""Check of one recipe: two updates, an evaluation, save, load and resume to the byte, twenty steps of play.

Started by `smoke.smoke_test` as `python -m gymlab.campaigns.smoke.check_recipe`, so that an env that crashes does
not end the other checks.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gymlab.core.errors import GymlabError, RunError
from gymlab.training.events import Checkpointed, Control, Evaluated, Event, Feature, Updated

if TYPE_CHECKING:
    from gymlab.recipes.schema import Recipe
    from gymlab.runs.paths import RunPaths

STAGES = ("trained", "evaluated", "saved", "resumed", "played")
UPDATES = 2
STEPS_PLAYED = 20
EPOCHS = 2  # over a rollout, at most
MOST_STEPS = 4096  # of a rollout: larger ones are shortened, with as many envs as the recipe has
LONGEST_EPISODE = 200  # where the time limit is far above: an untrained policy may never end one
FAR_ABOVE = 2000
_MISSING_PACKAGE = r"pip install|needs a package that is not installed"

OnStage = Callable[[str, str], None]  # (stage, how it was passed)


def shrinking(recipe: Recipe) -> list[str]:
    """Overrides that shorten a recipe; shapes stay, except those of very long rollouts."""
    from gymlab.envs.make import time_limit
    from gymlab.recipes.auto_steps import fitting_n_steps

    steps = min(recipe.n_steps, max(1, MOST_STEPS // recipe.n_envs))
    n_steps = fitting_n_steps(recipe.algorithm.settings, recipe.n_envs, steps) or recipe.n_steps
    per_update = recipe.n_envs * n_steps
    shorter = [f"n_steps={n_steps}"] if n_steps != recipe.n_steps else []
    if getattr(recipe.algorithm.settings, "epochs", 0) > EPOCHS:
        shorter.append(f"epochs={EPOCHS}")
    if time_limit(recipe.env) > FAR_ABOVE:
        shorter.append(f"env.max_episode_steps={LONGEST_EPISODE}")
    return [
        *shorter,
        f"budget={UPDATES * per_update}",
        f"checkpoints.every={per_update}",
        "eval.every=100%",
        "eval.mode=sync",
        "eval.final_episodes=1",
        "metrics.statistics=basic",
        "video.clips=[]",
    ]


def check_recipe(reference: str, folder: Path, on_stage: OnStage) -> None:
    """Put a recipe through all stages in an empty folder; raises where one fails."""
    from gymlab.recipes.resolve import amend, resolve
    from gymlab.runs.paths import RunPaths
    from gymlab.session.session import Options
    from gymlab.session.start import train

    recipe = resolve(reference).recipe
    recipe = amend(recipe, shrinking(recipe))
    result = train(recipe, Options(run_id="whole", full_budget=True), folder, watchers=[_StageReporter(on_stage)])
    if result.clock.updates != UPDATES or result.evaluated is None:
        raise RunError(f"the run ended after {result.clock.updates} updates: {result.status}, {result.stop_reason}")
    paths = RunPaths(folder / "whole")
    on_stage("resumed", _resumed(paths, recipe.n_envs * recipe.n_steps, result.evaluated))
    on_stage("played", f"{_played(paths, recipe)} steps")


class _StageReporter(Feature):
    """Reports a run's stages as they are passed."""

    name = "smoke"

    def __init__(self, on_stage: OnStage) -> None:
        self._on_stage = on_stage

    def __call__(self, event: Event, control: Control) -> None:
        del control
        if isinstance(event, Updated) and event.clock.updates == UPDATES:
            self._on_stage("trained", f"{event.clock.env_steps} steps")
        elif isinstance(event, Evaluated):
            if not math.isfinite(event.evaluation.greedy.mean + event.evaluation.sampled.mean):
                raise RunError(f"the evaluation gave {event.evaluation.as_json()}")
            self._on_stage("evaluated", f"{event.evaluation.greedy.mean:.4g}")
        elif isinstance(event, Checkpointed) and "last" in event.kinds:
            self._on_stage("saved", f"{max(1, event.bytes // 1000)} kB")


def _resumed(paths: RunPaths, at: int, evaluated: Evaluated) -> str:
    """Resume from the checkpoint after the first update, as after a kill there; the second must give the same bytes."""
    from gymlab.runs.checkpoints import load_checkpoint
    from gymlab.runs.paths import RunPaths
    from gymlab.session.start import Continuation, resume

    notes: list[str] = []
    how = Continuation(which=str(at), run_id="resumed")
    result = resume(paths, how, announce=lambda summary: notes.extend(summary.notes))
    whole, again = (load_checkpoint(p, "last") for p in (paths, RunPaths(result.run_dir)))
    if whole.path.name != again.path.name:
        raise RunError(f"the resumed run ended at checkpoint {again.path.name}, not {whole.path.name}")
    if not any(note.startswith("resumed (exact)") for note in notes):
        return "not exact"
    differ = [
        f"{part}/{name}"
        for part in ("policy", "state")
        for name, tensor in getattr(whole, part).items()
        if tensor.tobytes() != getattr(again, part)[name].tobytes()
    ]
    if differ:
        raise RunError(f"the resumed run differs from the whole one in {len(differ)} tensors: {', '.join(differ[:5])}")
    assert result.evaluated is not None
    ours = evaluated.evaluation
    theirs = result.evaluated.evaluation
    if ours != theirs:
        raise RunError(f"the same policy was evaluated otherwise: {ours.as_json()}, then {theirs.as_json()}")
    return "exact"


def _played(paths: RunPaths, recipe: Recipe) -> int:
    """Play the saved policy, rendered where the env can render, without a screen."""
    from gymlab.media.camera import without_screen
    from gymlab.media.play_session import Pace, PlaySession, open_env, play_policy
    from gymlab.media.policy_player import EpisodeOptions, open_player
    from gymlab.media.terminal_window import NoScreen
    from gymlab.runs.checkpoints import load_checkpoint

    without_screen()
    env = open_env(recipe)
    try:
        stage = open_player(recipe, lambda _: env)
        policy = stage.policy(load_checkpoint(paths, "best", with_state=False).policy)
        steps = 0
        with PlaySession(env, NoScreen(), Pace(fps=1e6), recipe.name) as show:
            for played in play_policy(show, stage, policy, EpisodeOptions(0, max_steps=STEPS_PLAYED), STEPS_PLAYED):
                steps += played.length
                if steps >= STEPS_PLAYED:
                    break
    finally:
        env.close()
    return steps


def what_to_install(message: str) -> str | None:
    """The line of an error that names a missing package, if one does; all that are about one say how to get it."""
    return next((line for line in message.splitlines() if re.search(_MISSING_PACKAGE, line)), None)


def main(reference: str, folder: str) -> None:
    """Print a line of JSON for each passed stage, and one for the result."""
    from gymlab.process.parent_watch import own_stdout

    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    out = own_stdout()
    passed = []

    def send(**message: str | bool) -> None:
        print(json.dumps(message), file=out, flush=True)

    def on_stage(stage: str, how: str) -> None:
        passed.append(stage)
        send(stage=stage, how=how)

    try:
        check_recipe(reference, Path(folder), on_stage)
    except GymlabError as error:
        lacking = None if passed else what_to_install(str(error))
        send(failed=str(error)) if lacking is None else send(skipped=lacking)
    except Exception as error:  # an env may raise anything: it is what is checked
        traceback.print_exc()
        frame = traceback.extract_tb(error.__traceback__)[-1]
        send(failed=f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})")
    else:
        send(done=True)


def _end_with_parent(folder: str) -> None:
    """Exit at the end of stdin, which closes when the parent exits or is killed, and remove the folder for it."""
    sys.stdin.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
