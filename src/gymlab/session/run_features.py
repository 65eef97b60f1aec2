"""The features of a run, made from its recipe and restored from a checkpoint.

A new feature is a line in `run_features`. Evaluation, checkpoints and stopping, which start threads or processes, are
in `evaluation_features`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import AlertEngine
from gymlab.alerts.registry import rules_for
from gymlab.algorithms.registry import ALGORITHMS
from gymlab.core.errors import RunError, UserError
from gymlab.envs.check import ignores_seed
from gymlab.envs.references import is_reference, load_reference
from gymlab.envs.registry import find_spec
from gymlab.envs.settings import Part
from gymlab.envs.wrapper_stacks import keeps_returns, leaves_bounds
from gymlab.envs.wrappers import WRAPPERS
from gymlab.features.alerts import Alerts
from gymlab.features.machine_metrics import MachineMetrics
from gymlab.features.record import Record
from gymlab.features.report import WriteReport
from gymlab.features.score import ScoreMetrics
from gymlab.features.skipped_updates import WarnSkippedUpdates
from gymlab.features.status import StatusFile
from gymlab.features.video import Announce, ClipOptions, FilmsAtEnd, Video
from gymlab.metrics.bounds import Context
from gymlab.recipes.keys import default_settings, flat_settings
from gymlab.recipes.project_settings import cache_folder
from gymlab.recipes.schema import Recipe
from gymlab.reports.report import context_of, written_bounds
from gymlab.runs.files import sha256, write_text
from gymlab.runs.manifest import versions
from gymlab.runs.paths import RunPaths
from gymlab.runs.store import RunStore
from gymlab.session.build import Parts, algorithm_class
from gymlab.training.events import Feature, FeatureState

log = logging.getLogger(__name__)
MOST_FILMED = 8  # runs in one process that record videos: each has a recorder process
_VERSIONED = ("gymnasium", "ale_py", "gymlab")  # packages whose envs change only with their versions


def run_features(parts: Parts, store: RunStore, record: Record, latest: Feature) -> list[Feature]:
    """The features that need nothing but the parts of a run and its folder."""
    recipe = parts.recipe
    return [
        MachineMetrics(parts.histogram_schedule, parts.program.most, parts.compile_seconds_before),
        record,
        ScoreMetrics(recipe.env.solved_at, recipe.stop.solved_by, recipe.budget_env_steps),
        latest,
        StatusFile(store, recipe.env.solved_at, recipe.stop.solved_by),
        WarnSkippedUpdates(),
        _alerts(parts, store.paths, _metric_context(parts, store.paths)),
        make_report(parts, store),
        *(_custom_feature(part) for part in recipe.features),
    ]


def make_report(parts: Parts, store: RunStore) -> WriteReport:
    """The feature that writes the run's report."""
    settings = flat_settings(parts.recipe)
    return WriteReport(
        store, settings, default_settings(settings, of_algorithm=True), _metric_context(parts, store.paths)
    )


def restore_features(features: Sequence[Feature], states: Mapping[str, FeatureState]) -> None:
    """Restore every feature that has a state in the checkpoint."""
    for feature in features:
        try:
            if feature.name in states:
                feature.restore(states[feature.name])
        except KeyError as error:
            missing = f"features.{feature.name}.{error.args[0]}"
            raise RunError(f"the checkpoint lacks {missing}: it cannot be resumed") from error


def make_video(
    recipe: Recipe,
    paths: RunPaths,
    announce: Announce,
    at_end: FilmsAtEnd | None = None,
    *,
    vmap_size: int = 1,
    of_group: bool = False,
) -> Video:
    """The feature that records videos; none if more than MOST_FILMED runs share this process."""
    video = recipe.video
    clips = video.clips if vmap_size <= MOST_FILMED else ()
    # Runs of a group would wait for each other's recordings; clips of every evaluation cannot wait for the end.
    late = of_group and vmap_size == 1 and "evaluation" not in clips
    options = ClipOptions(clips, recipe.eval.seed, video.sampled, video.clip_steps, video.fps, late)
    return Video(paths, options, announce, at_end)


def references(recipe: Recipe) -> list[str]:
    """Every `module:Name` and `./file.py:Name` of a recipe."""
    names = [
        recipe.env.id,
        recipe.algorithm.name,
        recipe.policy.encoder or "",
        recipe.algorithm.settings.optimizer,
        *(part.name for part in recipe.env.wrappers),
        *(part.name for part in recipe.features),
    ]
    return [text for text in names if is_reference(text)]


def _custom_feature(part: Part) -> Feature:
    """A user's feature: a class derived from `Feature`, called with the part's arguments."""
    found = load_reference(part.name)
    if not (isinstance(found, type) and issubclass(found, Feature)):
        raise UserError(f"features: '{part.name}' is not a class derived from gymlab.training.events.Feature")
    try:
        return found(**part.args)
    except TypeError as error:
        raise UserError(
            f"features: '{part.name}' cannot be made with {part.args or 'no arguments'}: {error}"
        ) from error


def _metric_context(parts: Parts, paths: RunPaths) -> Context:
    """What bounds of metrics are inferred from: the spaces, as far as the wrappers keep to them."""
    env = parts.recipe.env
    spaces = parts.spaces
    context = context_of(
        flat_settings(parts.recipe),
        spaces.action,
        None if leaves_bounds(env) else spaces.observation,
        spaces.max_episode_steps,
        keeps_returns=keeps_returns(env),
    )
    return context._replace(earlier=written_bounds(paths))


def _alerts(parts: Parts, paths: RunPaths, context: Context) -> Alerts:
    """Alerts by the rules of the algorithm, of the algorithms it extends, and of the recipe."""
    recipe = parts.recipe
    lineage = algorithm_class(recipe.algorithm.name).__mro__
    names = [name for kind in lineage for name, known in ALGORITHMS.items() if known is kind]
    rules = rules_for(names, [rule.rule() for rule in recipe.alerts.rules], recipe.alerts.off)
    check_copies = "identical-envs" not in recipe.alerts.off and recipe.n_envs > 1
    engine = AlertEngine(rules, RunContext(context, masked=parts.spaces.masked))
    return Alerts(engine, paths, lambda: _copies_metric(recipe) if check_copies else {})


def _copies_metric(recipe: Recipe) -> dict[str, float]:
    try:
        return {"env/copies": float(are_copies(recipe))}
    except Exception as error:  # env code may raise anything; the training envs report the same fault better
        log.info("whether the envs are copies could not be checked: %s: %s", type(error).__name__, error)
        return {}


def are_copies(recipe: Recipe) -> bool:
    """Whether envs with different seeds are the same to the last bit; cached, as an Atari game loads slowly."""
    path = _copies_file(recipe)
    if path is not None:
        with suppress(OSError):
            cached = path.read_text(encoding="utf-8")
            if cached in ("0", "1"):
                return cached == "1"
    found = ignores_seed(recipe.env, recipe.imports)
    if path is not None:
        with suppress(OSError):  # a cache that cannot be written only costs time
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, str(int(found)), durable=False)
    return found


def _copies_file(recipe: Recipe) -> Path | None:
    """The cache file of `are_copies`; None if code of the env or of a wrapper may change without a version."""
    env = recipe.env
    spec = find_spec(env.id)
    entry = "" if spec is None or not isinstance(spec.entry_point, str) else spec.entry_point
    if entry.split(".")[0] not in _VERSIONED or any(part.name not in WRAPPERS for part in env.wrappers):
        return None
    facts = env.model_dump(mode="json", include={"id", "kwargs", "wrappers", "max_episode_steps"})
    return cache_folder() / "copies" / sha256(json.dumps([facts, versions()], sort_keys=True).encode())[:32]
