"""`gymlab refs`: what is a good score on an environment?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gymlab.cli.options import Json, print_json

if TYPE_CHECKING:
    from pathlib import Path

    from gymlab.campaigns.reference_scores import Reference, ScoreBound
    from gymlab.runs.records import RegistryEntry

_OWN_RUNS = 3


def refs(
    env: Annotated[str, typer.Argument(metavar="ENV", help="A Gymnasium id, e.g. CartPole-v1.")],
    algorithm: Annotated[str | None, typer.Option("--algorithm", help="Only published scores of this one.")] = None,
    json: Json = False,
) -> None:
    """Print what is known to be reachable on an env, with sources, beside your own best runs.

    Example: gymlab refs LunarLander-v3
    """
    from gymlab.campaigns.reference_scores import published_scores, references
    from gymlab.core.errors import UserError, suggestion
    from gymlab.envs.registry import resolve_id
    from gymlab.recipes.project_settings import runs_folder

    known = references()
    note = ""
    if env not in known.envs():
        found = resolve_id(env)
        env = found.id
        note = found.note
    every = published_scores(env)
    listed = published_scores(env, algorithm)
    if algorithm is not None and every and not listed:
        names = {ref.algorithm for ref in every}
        raise UserError(f"--algorithm {algorithm}: no published score on {env}: {suggestion(algorithm, names)}")
    optimum = known.optima.get(env)
    chance = known.random.get(env)
    own = _own_runs(env, runs_folder())
    if json:
        print_json(
            {
                "env": env,
                "threshold": _threshold(env),
                "optimum": None
                if optimum is None
                else {**optimum.model_dump(), "source": known.sources[optimum.source]},
                "random": None if chance is None else {**chance.model_dump(), "source": known.sources[chance.source]},
                "scores": [{**ref.model_dump(), "source": known.sources[ref.system]} for ref in listed],
                "own": own,
            }
        )
        return
    lines = [note] if note else []
    lines += [env, *_bounds(_threshold(env), optimum, chance, known.sources), "", *_table(listed, own, env)]
    used = dict.fromkeys(ref.system for ref in listed)
    lines += ["", *(f"{name}: {known.sources[name]}" for name in used)] if used else []
    typer.echo("\n".join([*lines, f"next: gymlab train {env}"]))


def _threshold(env: str) -> float | None:
    from gymlab.core.errors import UserError
    from gymlab.envs.registry import spec_threshold

    try:
        return spec_threshold(env)
    except UserError:  # its package is not installed
        return None


def _bounds(
    threshold: float | None, optimum: ScoreBound | None, chance: ScoreBound | None, sources: dict[str, str]
) -> list[str]:
    lines = [] if threshold is None else [f"  registered threshold {threshold:g}"]
    for name, bound in (("optimum", optimum), ("random player", chance)):
        if bound is not None:
            spread = "" if bound.std is None else f" ± {bound.std:g}"
            played = "" if bound.episodes is None else f", {bound.episodes} episodes"
            also = f" ({bound.note})" if bound.note else ""
            lines.append(f"  {name} {bound.score:g}{spread}{also}: {sources[bound.source]}{played}")
    return lines or ["  no threshold, optimum or random score is known"]


def _own_runs(env: str, root: Path) -> list[RegistryEntry]:
    from gymlab.runs.registry import Registry

    runs = [run for run in Registry(root).runs() if run.get("env") == env]
    scored = [run for run in runs if isinstance(run.get("score"), int | float)]
    scored.sort(key=lambda run: -(run["score"] or 0.0))
    return [
        {"id": run["id"], "name": run.get("name"), "score": run["score"], "env_steps": run.get("env_steps")}
        for run in scored[:_OWN_RUNS]
    ]


def _table(listed: list[Reference], own: list[RegistryEntry], env: str) -> list[str]:
    from gymlab.core.format import format_count
    from gymlab.reports.sections import columns, printable

    rows = [
        (
            ref.score,
            f"{ref.score:g}" + ("" if ref.std is None else f" ± {ref.std:g}"),
            ref.system,
            ref.algorithm,
            "-" if ref.steps is None else format_count(ref.steps),
            "" if ref.on is None else f"on {ref.on}",
        )
        for ref in listed
    ]
    rows += [
        (
            run["score"] or 0.0,
            f"{run['score']:g}",
            "yours",
            printable(run["name"]).rpartition(":")[2],
            format_count(run["env_steps"] or 0),
            printable(run["id"]),
        )
        for run in own
    ]
    if not rows:
        return [f"no published score on {env} is known, and no run of yours has a score on it"]
    rows.sort(key=lambda row: -row[0])
    head = ("score", "by", "algorithm", "env steps", "")
    return columns([head, *(row[1:] for row in rows)], right=(0, 3))
