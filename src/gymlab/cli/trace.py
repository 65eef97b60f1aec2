"""`gymlab trace`: layer shapes and statistics of a recipe's network on real observations."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from gymlab.cli.options import Imports, Json, OverridesArgument, RecipeArgument, Sets, print_json

_WARM_UP = 16  # steps before the observations are taken, away from the initial state


def trace(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    batch: Annotated[int, typer.Option(help="Envs whose observations are looked at.", min=1, max=1024)] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the envs and the weights.", min=0)] = 0,
    sets: Sets = None,
    imports: Imports = None,
    json: Json = False,
) -> None:
    """Print every layer's output shape, mean, std and weights for real observations, before any training.

    Example: gymlab trace ALE/Pong-v5:rgb
    """
    from gymlab.recipes.resolve import resolve

    resolved = resolve(recipe, overrides or (), sets=sets or (), imports=imports or ())
    rows, total = _traced(resolved.recipe, batch, seed)
    if json:
        found = {"recipe": resolved.recipe.name, "batch": batch, "parameters": total, "layers": rows}
        print_json(found)
        return
    width = max(len(row["layer"]) for row in rows)
    typer.echo(f"{'layer':<{width}}  {'output':>16} {'mean':>10} {'std':>10} {'parameters':>11}")
    for row in rows:
        shape = " x ".join(map(str, row["shape"])) or "1"
        typer.echo(
            f"{row['layer']:<{width}}  {shape:>16} {row['mean']:>10.4g} {row['std']:>10.4g} {row['parameters']:>11,}"
        )
    typer.echo(f"{total:,} parameters; batch of {batch} observations of {resolved.recipe.env.id}, seed {seed}")


def _traced(recipe: Any, batch: int, seed: int) -> tuple[list[dict[str, Any]], int]:
    import jax
    import numpy as np

    from gymlab.algorithms.base import ActorCriticAlgorithm
    from gymlab.core.arrays import reset_carry
    from gymlab.core.errors import UserError
    from gymlab.core.jax_keys import run_key
    from gymlab.envs.engines.gymnasium import GymnasiumEngine
    from gymlab.envs.make import split_wrappers
    from gymlab.envs.transform import transformed
    from gymlab.networks.distributions import to_env_action
    from gymlab.networks.layer_summary import summarize_layers
    from gymlab.recipes.project_settings import cache_folder
    from gymlab.session.build import make_agent
    from gymlab.session.jax_setup import choose_device, set_up_jax
    from gymlab.training.state import Policy, apply_transforms, transform_action

    set_up_jax(cache_folder())
    choose_device(recipe.device, host_engine=True, small=True)
    _, transforms = split_wrappers(recipe.env)
    with GymnasiumEngine(recipe.env, batch, seed, imports=recipe.imports) as engine:
        spaces = transformed(engine.spaces, transforms)
        agent = make_agent(recipe, spaces)
        key = run_key(seed)
        algorithm = agent.algorithm
        normaliser = agent.normalising.init()
        if not isinstance(algorithm, ActorCriticAlgorithm):
            raise UserError(f"{recipe.algorithm.name} is not an actor-critic algorithm: its layers are not known")
        params = jax.jit(lambda key: algorithm.weights(algorithm.init(key, (batch,))))(key)
        states = tuple(transform.init(batch) for transform in transforms)
        states, step = apply_transforms(transforms, states, engine.reset(), key)
        act = jax.jit(partial(agent.act, greedy=False))
        carry = first = algorithm.initial_carry(batch)
        for t in range(_WARM_UP):
            now = jax.random.fold_in(key, t)
            decision = act(Policy(params, normaliser), step.obs, reset_carry(carry, step.fresh, first), now)
            carry = decision.carry
            action = to_env_action(spaces.action, np.asarray(decision.action))
            states, sent = transform_action(transforms, states, action, now)
            states, step = apply_transforms(transforms, states, engine.step(sent), now)
        obs = agent.normalising.observe(normaliser, step.obs)
        rows = summarize_layers(
            jax.jit(algorithm.look)(params, obs, reset_carry(carry, step.fresh, first)), params, obs
        )
    return [row._asdict() for row in rows], sum(int(values.size) for values in params.values())
