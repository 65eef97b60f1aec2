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
    at_end = of_group and "evaluation" not in clips  # where every evaluation is wanted, they cannot wait so long
    filming = Filming(clips, recipe.eval.seed, wanted.sampled, wanted.clip_steps, wanted.fps, at_end)
    return Video(paths, filming, announce)
