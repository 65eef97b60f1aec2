"""What the policy says of an observation that never was: as `predict`, with all that lies behind its choice."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from gymnasium import spaces

from gymlab.core.jax_keys import run_key
from gymlab.core.types import Masked
from gymlab.media.episode_trace import action_label, shortest_numbers, to_json
from gymlab.media.policy_player import PolicyPlayer
from gymlab.networks.distributions import to_env_action
from gymlab.session.predictor import add_batch_axis
from gymlab.training.state import Policy


def what_if(player: PolicyPlayer, policy: Policy, observation: Any, mask: Any = None) -> dict[str, Any]:
    """The greedy action for an observation as the policy gets it (JSON or arrays), and what it is chosen by."""
    obs, _ = add_batch_axis(player.spaces.observation, as_arrays(player.spaces.observation, observation))
    if mask is not None:
        obs = Masked(obs, np.asarray(mask, bool)[None])
    actor = player.actor
    fresh = np.ones(1, bool)
    key = run_key(0)
    decision, outlook = actor.choose(policy, obs, actor.first_carry, fresh, key, 0, greedy=True)
    action = to_env_action(player.spaces.action, decision.action[:1])[0]
    choice = decision.action[0]
    return {
        "action": to_json(np.asarray(action)),
        "label": action_label(choice if choice.ndim == 0 else np.asarray(action), player.labels),
        "probabilities": shortest_numbers(outlook["probabilities"][0]) if "probabilities" in outlook else [],
        "spread": {n: to_json(_first(outlook[n])) for n in ("mean", "std", "choices") if n in outlook},
        "value": float(outlook["value"][0]) if "value" in outlook else None,
        "entropy": float(outlook["entropy"][0]) if "entropy" in outlook else None,
    }


def _first(tree: Any) -> Any:
    return jax.tree.map(lambda x: np.asarray(x[0]), tree)


def as_arrays(space: Any, observation: Any) -> Any:
    """JSON's lists as the arrays and tuples that the space has; what does not fit is left for `predict` to refuse."""
    if isinstance(space, spaces.Dict) and isinstance(observation, dict):
        return {key: as_arrays(space.spaces.get(key), part) for key, part in observation.items()}
    if isinstance(space, spaces.Tuple) and isinstance(observation, list | tuple):
        inner = [*space.spaces, *[None] * len(observation)]
        return tuple(as_arrays(part, value) for part, value in zip(inner, observation, strict=False))
    return observation
