"""`gymlab video`: from a run's films and metrics to one reel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gymlab.core.errors import UserError
from gymlab.core.format import format_count
from gymlab.media.camera import why_no_film, without_screen
from gymlab.media.export_page import film_missing
from gymlab.media.highlight_reel import Course, Reel, ReelStyle, Take
from gymlab.media.html_page import read_table, result_told
from gymlab.media.writer import FilmWriter, read_frames
from gymlab.recipes.resolve import read_run_recipe
from gymlab.runs.curves import CurveReader
from gymlab.runs.films import Clip, of_kind, table_path
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status

MOST_TAKES = 4


def make_reel(paths: RunPaths, target: Path, style: ReelStyle | None = None) -> int:
    """Write the reel of a run; how many episodes are in it."""
    if why := why_no_film():
        raise UserError(why)
    without_screen()
    recipe = read_run_recipe(paths.recipe)
    shown = spread(film_missing(paths, recipe, ["best", "last"]))
    style = style or ReelStyle()
    goal = recipe.env.solved_at
    reel = Reel(recipe.name, course_of(paths, goal), style)
    about = {"title": f"{recipe.name}: {paths.run_id}", "run_id": paths.run_id}
    with FilmWriter(target, style.fps, about, crf=19) as film:
        for picture in _scenes(paths, reel, shown, recipe.name, read_status(paths)):
            film.add(picture)
    return len(shown)


def _scenes(
    paths: RunPaths, reel: Reel, shown: list[Clip], name: str, status: Mapping[str, Any]
) -> Iterator[np.ndarray]:
    yield from reel.title([name, result_told(status), paths.run_id])
    seconds = max(reel.style.clip_seconds, reel.style.versus_seconds)
    for clip in shown:
        yield from reel.episode(take_of(paths, clip, seconds))
    if len(shown) > 1:
        yield from reel.versus(take_of(paths, shown[0], seconds), take_of(paths, shown[-1], seconds))
    last = shown[-1].about
    yield from reel.title(
        [
            f"return {last['return']:.4g}",
            f"after {format_count(last['env_steps'], brief=True)} env_steps",
            "made with gymlab",
        ]
    )


def spread(found: list[Clip], most: int = MOST_TAKES) -> list[Clip]:
    """A few films by step: the earliest, the best or else the last, and some between them."""
    if not found:
        raise UserError("the run has no film to show")
    best = (of_kind(found, "best") or of_kind(found, "final") or found)[-1]
    before = [clip for clip in found if clip.env_steps < best.env_steps]
    if len(before) >= most:
        places = np.linspace(0, len(before) - 1, most - 1).round().astype(int)
        before = [before[i] for i in sorted(set(places.tolist()))]
    return [*before, best]


def take_of(paths: RunPaths, clip: Clip, seconds: float) -> Take:
    """The first seconds of a film, without what is written below its pictures."""
    left, top, width, height = clip.about["picture"]
    fps = float(clip.about["fps"])
    stride = int(clip.about["stride"])
    frames = []
    for frame in read_frames(clip.path):
        frames.append(frame[top : top + height, left : left + width].copy())
        if len(frames) >= seconds * fps:
            break
    returns = [0.0, *(row["return_so_far"] for row in _rows(paths, clip))]
    totals = [returns[min(i * stride, len(returns) - 1)] for i in range(len(frames))]
    title = f"{', '.join(clip.kinds)}: {format_count(clip.env_steps, brief=True)} env_steps"
    return Take(frames, fps, title, clip.env_steps, totals, float(clip.about["return"]))


def _rows(paths: RunPaths, clip: Clip) -> list[dict[str, Any]]:
    table = table_path(paths, clip.env_steps)
    return read_table(table) if table.is_file() else []


def course_of(paths: RunPaths, goal: float | None) -> Course:
    """The return of training episodes over env_steps."""
    name = "roll/return_mean"
    with CurveReader(paths.metrics) as reader:
        curve = reader.curves([name], "env_steps", 200)[name]
    return Course(curve.x, curve.y, "return of training episodes", goal)
