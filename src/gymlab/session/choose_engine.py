"""Chooses the engine that steps the envs of a recipe, in training and in evaluation, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from gymlab.core.errors import UserError
from gymlab.envs.engines.base import HostEngine
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.jax import JaxEngine
from gymlab.envs.engines.sync_vector import Factory
from gymlab.envs.make import import_all, split_wrappers
from gymlab.envs.ports.port import JaxEnv
from gymlab.envs.ports.registry import find_port
from gymlab.envs.registry import resolve_id
from gymlab.envs.settings import EnvSettings
from gymlab.envs.wrapper_stacks import WrapperStacks, evaluation_settings
from gymlab.recipes.schema import Recipe
from gymlab.runs.records import ManifestEnv

if TYPE_CHECKING:
    from gymlab.envs.engines.ale import AleEngine


def make_engine(recipe: Recipe, seed: int, factory: Factory | None) -> tuple[HostEngine | JaxEngine, str]:
    """The training engine and why it is this one."""
    port, reason = compiled_env(recipe, factory)
    if port is not None:
        return JaxEngine(port, recipe.n_envs, use_action_mask=recipe.env.action_mask), reason
    native = _native_atari(recipe, factory)
    if native is not None:
        engine = native(recipe.env, recipe.n_envs, seed, imports=recipe.imports)
        reason = "it plays Atari pictures natively"
        if engine.sticky:
            reason += "; evaluation's Python path draws sticky actions from another generator"
        return engine, reason
    if recipe.engine == "envpool":
        return _envpool(recipe, seed, factory)
    kind, why = _vectorization(recipe, factory)
    reason = f"{reason}; {kind}: {why}"
    if kind == "processes":
        from gymlab.envs.engines.processes import ProcessEngine

        workers = recipe.workers
        return ProcessEngine(recipe.env, recipe.n_envs, seed, workers=workers, imports=recipe.imports), reason
    if recipe.env.timeout != EnvSettings.model_fields["timeout"].default:
        reason += "; env.timeout needs vectorization: processes"
    return GymnasiumEngine(recipe.env, recipe.n_envs, seed, imports=recipe.imports, factory=factory), reason


def _native_atari(recipe: Recipe, factory: Factory | None) -> type[AleEngine] | None:
    """The native Atari engine class, if requested, or if it fits and the choice is automatic."""
    from gymlab.envs.engines import ale

    eligible = recipe.engine == "ale" or (recipe.engine == "auto" and recipe.vectorization == "auto")
    if not eligible or (recipe.engine == "auto" and (factory is not None or ale.unsupported_reason(recipe.env))):
        return None
    if factory is not None:
        raise UserError("engine: ale cannot run this recipe (the env is a Python object): use engine: auto")
    return ale.AleEngine


def _envpool(recipe: Recipe, seed: int, factory: Factory | None) -> tuple[HostEngine, str]:
    """The EnvPool engine, only on request: its seeds give other episodes than Gymnasium's."""
    from gymlab.envs.engines.envpool import EnvPoolEngine

    blocked = "the env is a Python object" if factory is not None else ""
    if recipe.vectorization != "auto":
        blocked = f"vectorization: {recipe.vectorization} steps envs of Gymnasium"
    if blocked:
        raise UserError(f"engine: envpool cannot run this recipe ({blocked}): use engine: auto")
    threads = recipe.workers or 0
    engine = EnvPoolEngine(recipe.env, recipe.n_envs, seed, imports=recipe.imports, threads=threads)
    return engine, "asked for" if engine.restorable else "asked for; a resumed run will begin new episodes"


def compiled_env(recipe: Recipe, factory: Factory | None) -> tuple[JaxEnv | None, str]:
    """The JAX port to use, or None, and the reason."""
    if recipe.engine in ("gymnasium", "ale", "envpool"):
        return None, "asked for"
    resolved = resolve_id(recipe.env.id)
    port = find_port(resolved.id, {**resolved.kwargs, **recipe.env.kwargs}, recipe.env.max_episode_steps)
    env_side, _ = split_wrappers(recipe.env)
    if factory is not None:
        blocked = "the env is a Python object"
    elif isinstance(port, str):
        blocked = port
    elif env_side:
        blocked = f"wrappers: '{env_side[0].name}' wraps the Gymnasium env"
    elif recipe.vectorization != "auto":
        blocked = f"vectorization: {recipe.vectorization} steps host envs"
    else:
        return port, "asked for" if recipe.engine == "jax" else "a compiled port exists"
    if recipe.engine == "jax":
        raise UserError(f"engine: jax cannot run this recipe ({blocked}): use engine: auto")
    return None, blocked


def _vectorization(recipe: Recipe, factory: Factory | None) -> tuple[str, str]:
    if factory is not None:
        return "sync", "env objects stay in this process"
    if recipe.vectorization != "auto":
        return recipe.vectorization, "asked for"
    from gymlab.envs.engines.processes import choose_vectorization

    return choose_vectorization(recipe.env, recipe.n_envs, recipe.imports)


def evaluation_engines(recipe: Recipe, factory: Factory | None) -> Callable[[int, int], GymnasiumEngine]:
    """Makes engines of Gymnasium envs for evaluation episodes."""
    settings = evaluation_settings(recipe.env)

    def make(n_envs: int, seed: int) -> GymnasiumEngine:
        if factory is not None:
            raise UserError("an env object cannot be evaluated: pass the env's id or its class")
        import_all(recipe.imports)
        return GymnasiumEngine(settings, n_envs, seed, evaluation=True)

    return make


def env_description(settings: EnvSettings, stacks: WrapperStacks, limit: int) -> ManifestEnv:
    """The resolved wrapper stacks of training and evaluation, for the manifest."""
    facts = settings.model_dump(mode="json", exclude={"id", "max_episode_steps"})
    evaluation = {"stack": stacks.evaluation, "leaves_out": stacks.left_out}
    known = {"id": settings.id, "stack": stacks.training, "evaluation": evaluation, "max_episode_steps": limit}
    return cast("ManifestEnv", {**known, **facts})
