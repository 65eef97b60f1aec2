"""From a recipe's `video:` block to the feature that films."""

from __future__ import annotations

from gymlab.features.video import Announce, Filming, Video
from gymlab.recipes.schema import Recipe
from gymlab.runs.paths import RunPaths


def make_video(recipe: Recipe, paths: RunPaths, announce: Announce) -> Video:
    """Films of a run, each announced with the clocks of its policy."""
    wanted = recipe.video
    filming = Filming(wanted.clips, recipe.eval.seed, wanted.sampled, wanted.clip_steps, wanted.fps)
    return Video(paths, filming, announce)
