"""Making the page or the table of a run: filming what is not there yet, and writing it all down."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gymlab.core.clock import Clock
from gymlab.core.errors import GymlabError, UserError
from gymlab.media.camera import why_no_film
from gymlab.media.episode_trace import to_csv
from gymlab.media.html_page import live_policy, page, recorded, result_told
from gymlab.media.policy_player import action_labels, open_stage
from gymlab.media.record_episode import Shot, filmed_stage, record_clip, wanted
from gymlab.recipes.resolve import read_run_recipe
from gymlab.recipes.schema import Recipe
from gymlab.runs import files
from gymlab.runs.checkpoints import Loaded, load_checkpoint
from gymlab.runs.films import Clip, of_kind, scan, table_path
from gymlab.runs.manifest import read_manifest
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status

MOST_EPISODES = 4


def shot_of(recipe: Recipe, loaded: Loaded, kind: str) -> Shot:
    """How a checkpoint is filmed, as the recipe says."""
    video = recipe.video
    clock = Clock(**loaded.info["clock"])
    return Shot(clock, (kind,), recipe.eval.seed, not video.sampled, video.clip_steps, video.fps)


def film_missing(paths: RunPaths, recipe: Recipe, which: list[str]) -> list[Clip]:
    """The run's films, with those of the named checkpoints added where there are none yet."""
    found = scan(paths)
    loaded = {name: load_checkpoint(paths, name, with_state=False) for name in which}
    missing = {one.env_steps: (one, name) for name, one in reversed(loaded.items())}
    missing = {steps: both for steps, both in missing.items() if steps not in {clip.env_steps for clip in found}}
    if not missing:
        return found
    if why := why_no_film():
        raise UserError(why)
    stage = filmed_stage(recipe)
    try:
        for one, name in missing.values():
            kind = {"best": "best", "last": "final"}.get(name, "checkpoint")
            record_clip(paths, stage, stage.policy(one.policy), shot_of(recipe, one, kind))
    finally:
        stage.close()
    return scan(paths)


def export_html(paths: RunPaths, which: str, target: Path) -> list[str]:
    """Write the page of a run; what is in it, for people."""
    recipe = read_run_recipe(paths.recipe)
    loaded = load_checkpoint(paths, which, with_state=False)
    told = []
    episodes = []
    try:
        found = [clip for clip in film_missing(paths, recipe, [which]) if table_path(paths, clip.env_steps).is_file()]
        episodes = [recorded(paths, clip) for clip in chosen(found, loaded.env_steps)]
        told.append(f"{len(episodes)} recorded {'episode' if len(episodes) == 1 else 'episodes'}")
    except GymlabError as error:
        told.append(f"no recorded episodes ({error})")
    labels = episodes[0]["labels"] if episodes else _labels(recipe)
    live = live_policy(recipe, loaded.policy, labels)
    if live is not None:
        told.append(f"the policy of checkpoint {loaded.path.name} live")
    if not episodes and live is None:
        raise UserError(f"there is nothing to show of {paths.run_id}: {told[0]}, and {recipe.env.id} has no live page")
    manifest = read_manifest(paths)
    run: dict[str, Any] = {"id": paths.run_id, "recipe": recipe.name, "seed": manifest.get("seed")}
    text = page({**run, "result": result_told(read_status(paths))}, episodes, live)
    _write(target, text)
    return told


def chosen(found: list[Clip], shown_first: int) -> list[Clip]:
    """A few films for a page: the one asked for, then the first, and between them what was the best on the way."""
    main = [clip for clip in found if clip.env_steps == shown_first]
    first = [clip for clip in of_kind(found, "first") if clip not in main]
    rest = [clip for clip in found if clip not in main and clip not in first]
    middle = rest[:: max(1, -(-len(rest) // max(1, MOST_EPISODES - len(main) - len(first))))]
    return [*main, *first, *middle][:MOST_EPISODES]


def export_table(paths: RunPaths, which: str, target: Path, *, seed: int | None, sampled: bool) -> int:
    """Write the step table of one episode; how many steps it has."""
    recipe = read_run_recipe(paths.recipe)
    loaded = load_checkpoint(paths, which, with_state=False)
    stage = open_stage(recipe)
    try:
        usual = shot_of(recipe, loaded, "table")
        shot = replace(usual, seed=usual.seed if seed is None else seed, greedy=usual.greedy and not sampled)
        episode = stage.play(stage.policy(loaded.policy), wanted(stage, shot))
    finally:
        stage.close()
    _write(target, to_csv(episode.rows))
    return len(episode.rows)


def _labels(recipe: Recipe) -> tuple[str, ...]:
    from gymlab.envs.make import make_env

    env = make_env(recipe.env)
    try:
        return action_labels(env.action_space, recipe.env.actions, env)
    finally:
        env.close()


def _write(target: Path, text: str) -> None:
    try:
        files.write_text(target, text)
    except OSError as error:
        raise UserError(f"cannot write '{target}': {error.strerror}") from error
