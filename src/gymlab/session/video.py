"""From a recipe's `video:` block to the feature that films."""

from __future__ import annotations

from gymlab.features.video import Announce, Filming, Video
from gymlab.recipes.schema import Recipe
from gymlab.runs.paths import RunPaths

MOST_TOGETHER = 8  # runs of one process that are filmed: every one of them has a recorder


def make_video(
    recipe: Recipe, paths: RunPaths, announce: Announce, *, together: int = 1, of_group: bool = False
) -> Video:
    """Films of a run, each announced with the clocks of its policy; none where too many run `together`."""
    wanted = recipe.video
    clips = wanted.clips if together <= MOST_TOGETHER else ()
    # Runs of one process would wait for each other's films, and films of every evaluation cannot wait so long.
    at_end = of_group and together == 1 and "evaluation" not in clips
    filming = Filming(clips, recipe.eval.seed, wanted.sampled, wanted.clip_steps, wanted.fps, at_end)
    return Video(paths, filming, announce)
