"""From a recipe's `video:` block to the feature that films."""

from __future__ import annotations

from contextlib import suppress

from gymlab.core.errors import UserError
from gymlab.envs.registration import registration
from gymlab.features.video import Announce, Filming, Video
from gymlab.recipes.schema import Recipe
from gymlab.runs.paths import RunPaths


def make_video(recipe: Recipe, paths: RunPaths, announce: Announce) -> Video:
    """Films of a run, each announced with the clocks of its policy."""
    wanted, registered = recipe.video, None
    with suppress(UserError):  # the recorder says what it does not know
        registered = registration(recipe.env.id)
    filming = Filming(wanted.clips, recipe.eval.seed, wanted.sampled, wanted.clip_steps, wanted.fps, registered)
    return Video(paths, filming, announce)
