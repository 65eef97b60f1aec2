"""Failures of a run: their message and fault bundle, and replaying the bad update to see whether it repeats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TypedDict

import jax
import jax.numpy as jnp
import numpy as np

from gymlab.core.errors import RunError
from gymlab.core.types import Array, Rollout
from gymlab.experience.space_arrays import zero_obs
from gymlab.recipes.resolve import read_run_recipe
from gymlab.recipes.schema import Recipe
from gymlab.recipes.secrets import dump_redacted_recipe
from gymlab.reports.fault_bundle import Bundle, FaultDescription, statistics, write_bundle
from gymlab.runs.checkpoints import read_index
from gymlab.runs.manifest import checkpoint_clock
from gymlab.runs.paths import RunPaths
from gymlab.session.build import Parts, build
from gymlab.training.agent import UpdateResult
from gymlab.training.named_tensors import Tensors, from_tensors, to_tensors
from gymlab.training.nonfinite import NonfiniteTensor, NumericalFault
from gymlab.training.state import TrainState
from gymlab.training.trainer_compiled import CompiledTrainer


@contextmanager
def describe_failures(parts: Parts, paths: RunPaths) -> Iterator[None]:
    """Add the last checkpoint and advice to the message of a RunError; a numerical fault also writes a bundle."""
    try:
        yield
    except RunError as error:
        last = read_index(paths).get("last")
        checkpoint = f"last good checkpoint: {'none' if last is None else f'{last} {checkpoint_clock(paths)}'}"
        if isinstance(error, NumericalFault):
            lines = [
                f"{error}",
                f"{checkpoint}; {_write_bundle(error, parts, paths)}",
                f"try: {'; '.join(advice(error.findings, parts, error.bad.hp))}",
                f"details: gymlab diagnose {paths.run_id}; continue: gymlab resume {paths.run_id} key=value",
            ]
        else:
            lines = [f"{error}", f"{checkpoint}; continue from there: gymlab resume {paths.run_id}"]
        error.args = ("\n".join(lines),)
        raise


def require_no_nan(tensors: Tensors) -> Tensors:
    """Return the tensors of a checkpoint, or raise RunError if one has a NaN; those of envs and wrappers may."""
    for name, tensor in tensors.items():
        foreign = "/env/" in name or "/transforms/" in name
        if tensor.dtype.kind == "f" and not foreign and np.isnan(tensor).any():
            raise RunError(f"{name} holds NaN: no checkpoint is written")
    return tensors


def _write_bundle(fault: NumericalFault, parts: Parts, paths: RunPaths) -> str:
    bad = fault.bad
    rollout = to_tensors(bad.rollouts)
    state = to_tensors(bad.state)
    before = parts.agent.policy(bad.state)
    after = parts.agent.policy(bad.after)
    tensors = to_tensors({"rollout": bad.rollouts, "before": before, "after": after})
    report: FaultDescription = {
        "env_steps": bad.env_steps,
        "vec_steps": bad.vec_steps,
        "seed": parts.seed,
        "engine": parts.chosen.engine,
        "message": fault.describe(),
        "findings": [finding._asdict() | {"text": str(finding)} for finding in fault.findings],
        "advice": advice(fault.findings, parts, bad.hp),
        "hp": {name: value.item() for name, value in bad.hp.items()},
        "tensors": statistics(tensors),
    }
    try:
        path = write_bundle(
            paths,
            bad.update + 1,
            rollout=rollout,
            state=state,
            recipe=dump_redacted_recipe(parts.recipe),
            report=report,
        )
    except OSError as error:  # a full disk must not hide what went wrong
        return f"bundle: could not be written ({error.strerror})"
    return f"bundle: {path}"


def advice(findings: list[NonfiniteTensor], parts: Parts, hp: Mapping[str, Array]) -> list[str]:
    """What to change, by the tensor that first had a NaN or infinity."""
    recipe = parts.recipe
    if not findings:
        return ["gymlab diagnose --replay", "another machine"]
    place = findings[0].place
    if findings[0].gradient_step == 0:
        return ["another checkpoint: this was bad before the update"]
    if place in ("observation", "reward") and "normalised" not in findings[0].tensor:
        check = f"gymlab envs check {recipe.env.id}"
        port = ["engine=gymnasium, to see whether the compiled env is at fault"] if parts.chosen.engine == "jax" else []
        return [f"{check}: the {place} comes from the env or a wrapper", *port]
    tried = [] if recipe.normalize.reward else ["normalize.reward=true"]
    if place in ("advantage", "state"):
        return [*tried, "a scale_reward wrapper: the numbers are too large for their sums"]
    tried = [*([] if recipe.normalize.obs else ["normalize.obs=true"]), *tried]
    lower = [
        f"a lower {name} (it was {hp[name]:g})" for name in ("learning_rate", "max_grad_norm") if hp.get(name, 0) > 0
    ]
    return [*lower, *tried, *_own_code(recipe)]


def _own_code(recipe: Recipe) -> list[str]:
    name = recipe.algorithm.name
    return [f"a look at the code of {name}"] if ":" in name else []


class ReplayRecord(TypedDict):
    """A `Replay` as JSON."""

    deterministic: bool
    message: str


class Replay(NamedTuple):
    """The outcome of replaying a bad update twice."""

    deterministic: bool
    message: str

    def as_json(self) -> ReplayRecord:
        return {"deterministic": self.deterministic, "message": self.message}


def replay(bundle: Bundle) -> Replay:
    """Run a bundle's update twice, from the state before it, and compare every bit of the results."""
    report = bundle.report
    parts = build(read_run_recipe(bundle.recipe), report["seed"])
    try:
        state = from_tensors(parts.program.start(report["seed"]), bundle.state())
        first, second = (_run_update(parts, state, bundle) for _ in range(2))
    finally:
        parts.program.close()
    if not (first.pop("fault").any() and second.pop("fault").any()):
        return Replay(False, "not reproducible: the update is sound now. Suspect hardware or nondeterminism")
    different = [name for name in first if first[name].tobytes() != second[name].tobytes()]
    if different:
        return Replay(False, f"not reproducible: {different[0]} differs. Suspect hardware or nondeterminism")
    return Replay(True, "deterministic: the same numbers go bad again, so it is the settings, the env or the code")


def _run_update(parts: Parts, state: TrainState, bundle: Bundle) -> Tensors:
    """All results of the update. Compiled envs are stepped again; for others the rollout is the bundle's."""
    update = bundle.report["update"] - 1
    hp: dict[str, np.generic] = {"update": np.int32(update)}
    hp |= {name: np.float32(x) if isinstance(x, float) else np.int32(x) for name, x in bundle.report["hp"].items()}
    if isinstance(parts.program, CompiledTrainer):
        rollouts = parts.program.recollect(state, update)
    else:
        rollouts = (_rollout(parts, bundle.rollout()),)
        state = state._replace(groups=tuple(g._replace(transforms=(), obs=(), fresh=()) for g in state.groups))
    result: UpdateResult = jax.jit(parts.agent.learn)(state, rollouts, hp)
    fault = result.fault | ~parts.agent.is_finite(result.state)
    return to_tensors({"rollout": rollouts, "state": result.state, "metrics": result.metrics, "fault": fault})


def _rollout(parts: Parts, tensors: Tensors) -> Rollout:
    """The bundle's rollout as a tree, in the structure that follows from the spaces and the algorithm."""
    obs = zero_obs(parts.spaces, ())
    carry = parts.agent.algorithm.initial_carry(parts.recipe.n_envs)
    leaf = np.zeros(())

    def named(prefix: str) -> dict[str, Array]:
        found = [name.removeprefix(f"0/{prefix}/") for name in tensors if name.startswith(f"0/{prefix}/")]
        return dict.fromkeys(found, leaf)

    shape = Rollout(
        obs, leaf, leaf, leaf, leaf, named("components"), leaf, leaf, leaf, obs, obs, carry, named("extras")
    )
    paths, treedef = jax.tree_util.tree_flatten_with_path((shape,))
    names = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in paths]
    if missing := sorted(set(names) - tensors.keys()):
        raise RunError(f"the bundle's rollout lacks {missing[0]}")
    (rollout,) = jax.tree_util.tree_unflatten(treedef, [jnp.asarray(tensors[name]) for name in names])
    return rollout
