"""What a run that fails says and leaves behind, and making its bad update again to see whether it repeats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gymlab.core.errors import RunError
from gymlab.core.types import Rollout
from gymlab.experience.space_arrays import zero_obs
from gymlab.recipes.resolve import read_run_recipe
from gymlab.recipes.schema import Recipe
from gymlab.recipes.secrets import dump_redacted_recipe
from gymlab.reports.fault_bundle import Bundle, statistics, write_bundle
from gymlab.runs.checkpoints import read_index
from gymlab.runs.paths import RunPaths
from gymlab.session.build import Parts, build
from gymlab.training.agent import UpdateResult
from gymlab.training.named_tensors import Tensors, from_tensors, to_tensors
from gymlab.training.nonfinite import NonfiniteTensor, NumericalFault
from gymlab.training.state import TrainState
from gymlab.training.trainer_compiled import CompiledTrainer


@contextmanager
def failure_told(parts: Parts, paths: RunPaths) -> Iterator[None]:
    """A fault inside says what is left of the run and what to do; one of numbers leaves a bundle to look at."""
    try:
        yield
    except RunError as error:
        last = read_index(paths).get("last")
        kept = f"last good checkpoint: {'none' if last is None else f'{last} env_steps'}"
        if isinstance(error, NumericalFault):
            lines = [
                f"{error}",
                f"{kept}; {_leave_bundle(error, parts, paths)}",
                f"try: {'; '.join(advice(error.findings, parts, error.bad.hp))}",
                f"look closer: gymlab diagnose {paths.run_id}; go on: gymlab resume {paths.run_id} key=value",
            ]
        else:
            lines = [f"{error}", f"{kept}; go on from there: gymlab resume {paths.run_id}"]
        error.args = ("\n".join(lines),)
        raise


def sound_tensors(tensors: Tensors) -> Tensors:
    """The tensors of a checkpoint, none of them with a NaN; what envs and wrappers keep in theirs is their own."""
    for name, tensor in tensors.items():
        foreign = "/env/" in name or "/transforms/" in name
        if tensor.dtype.kind == "f" and not foreign and np.isnan(tensor).any():
            raise RunError(f"{name} holds NaN: no checkpoint is written")
    return tensors


def _leave_bundle(fault: NumericalFault, parts: Parts, paths: RunPaths) -> str:
    bad = fault.bad
    rollout = to_tensors(bad.rollouts)
    state = to_tensors(bad.state)
    before = parts.agent.policy(bad.state)
    after = parts.agent.policy(bad.after)
    looked_at = to_tensors({"rollout": bad.rollouts, "before": before, "after": after})
    report = {
        "env_steps": bad.env_steps,
        "vec_steps": bad.vec_steps,
        "seed": parts.seed,
        "engine": parts.chosen.engine,
        "told": fault.told(),
        "findings": [finding._asdict() | {"text": str(finding)} for finding in fault.findings],
        "advice": advice(fault.findings, parts, bad.hp),
        "hp": {name: float(value) for name, value in bad.hp.items()},
        "tensors": statistics(looked_at),
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


def advice(findings: list[NonfiniteTensor], parts: Parts, hp: Mapping[str, Any]) -> list[str]:
    """What to change, by where the numbers first went bad."""
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


class Replay(NamedTuple):
    """A bad update made twice more."""

    deterministic: bool
    told: str


def replay(bundle: Bundle) -> Replay:
    """Make a bundle's update twice, from the state before it, and compare every bit of what comes out."""
    report = bundle.report
    parts = build(read_run_recipe(bundle.recipe), report["seed"])
    try:
        state = from_tensors(parts.program.start(report["seed"]), bundle.state())
        first, second = (_again(parts, state, bundle) for _ in range(2))
    finally:
        parts.program.close()
    if not (first.pop("fault").any() and second.pop("fault").any()):
        return Replay(False, "not reproducible: the update is sound now. Suspect hardware or nondeterminism")
    differ = [name for name in first if first[name].tobytes() != second[name].tobytes()]
    if differ:
        return Replay(False, f"not reproducible: {differ[0]} differs. Suspect hardware or nondeterminism")
    return Replay(True, "deterministic: the same numbers go bad again, so it is the settings, the env or the code")


def _again(parts: Parts, state: TrainState, bundle: Bundle) -> Tensors:
    """Everything the update gives. Compiled envs are stepped again, others' rollout is the bundle's."""
    update = np.uint32(bundle.report["update"] - 1)
    hp = {name: np.float32(value) for name, value in bundle.report["hp"].items()}
    if isinstance(parts.program, CompiledTrainer):
        rollouts = parts.program.recollect(state, int(update))
    else:
        rollouts = (_rollout(parts, bundle.rollout()),)
        state = state._replace(groups=tuple(g._replace(transforms=(), obs=(), fresh=()) for g in state.groups))
    learnt: UpdateResult = jax.jit(parts.agent.learn)(state, rollouts, hp, update)
    fault = learnt.fault | ~parts.agent.sound(learnt.state)
    return to_tensors({"rollout": rollouts, "state": learnt.state, "metrics": learnt.metrics, "fault": fault})


def _rollout(parts: Parts, tensors: Tensors) -> Rollout:
    """The bundle's rollout, its trees in the shape that the spaces and the algorithm give them."""
    obs = zero_obs(parts.spaces, ())
    carry = parts.agent.algorithm.initial_carry(parts.recipe.n_envs)

    def named(prefix: str) -> dict[str, int]:
        found = [name.removeprefix(f"0/{prefix}/") for name in tensors if name.startswith(f"0/{prefix}/")]
        return dict.fromkeys(found, 0)

    shape = Rollout(obs, 0, 0, 0, 0, named("components"), 0, 0, 0, obs, obs, carry, named("extras"))
    paths, treedef = jax.tree_util.tree_flatten_with_path((shape,))
    names = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in paths]
    if missing := sorted(set(names) - tensors.keys()):
        raise RunError(f"the bundle's rollout lacks {missing[0]}")
    (rollout,) = jax.tree_util.tree_unflatten(treedef, [jnp.asarray(tensors[name]) for name in names])
    return rollout
