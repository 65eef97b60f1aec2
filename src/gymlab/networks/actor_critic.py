"""The policy and value network. Written for batches with any leading axes; weights are (in, out) matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from gymnasium import spaces as gym_spaces

from gymlab.core.arrays import where_rows
from gymlab.core.types import Array, Decision, Masked, Space, Spaces, Tree
from gymlab.networks import gsde
from gymlab.networks.distributions import Distribution, Gaussian, action_distribution, output_count
from gymlab.networks.encoders import Encoder, FlattenEncoder, MakeEncoder
from gymlab.networks.init import WeightSpec, orthogonal, orthogonal_layers
from gymlab.networks.settings import PolicySettings

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "elu": jax.nn.elu,
    "leaky_relu": jax.nn.leaky_relu,
}


class Linear(eqx.Module):
    weight: Array
    bias: Array

    def __init__(self, weight: Array) -> None:
        """(in, out)"""
        self.weight = weight
        self.bias = jnp.zeros(weight.shape[1], jnp.float32)

    def __call__(self, x: Array) -> Array:
        return x @ self.weight + self.bias


def _linears(specs: list[WeightSpec], settings: PolicySettings) -> list[Linear]:
    """Layers with their first weights; those of the last are orthogonal in any case."""
    if settings.ortho_init:
        return [Linear(weight) for weight in orthogonal_layers(specs)]
    *others, last = specs
    uniform = jax.nn.initializers.lecun_uniform()
    return [Linear(uniform(cast("jax.Array", layer.key), layer.shape, jnp.float32)) for layer in others] + [
        Linear(orthogonal(*last))
    ]


class Trunk(eqx.Module):
    """An encoder and hidden layers."""

    encoder: Encoder
    layers: tuple[Linear, ...]
    size: int = eqx.field(static=True)
    activation: str = eqx.field(static=True)

    def __init__(self, encoder: Encoder, layers: list[Linear], activation: str) -> None:
        self.encoder = encoder
        self.layers = tuple(layers)
        self.activation = activation
        self.size = layers[-1].weight.shape[1] if layers else encoder.size

    def __call__(self, obs: Tree) -> Array:
        x = self.encoder(obs.obs if isinstance(obs, Masked) else obs)
        for layer in self.layers:
            x = ACTIVATIONS[self.activation](layer(x))
        return x

    def activations(self, obs: Tree) -> tuple[Array, dict[str, Array]]:
        """What the trunk gives, and each hidden layer by its place; an encoder's layers too, where it shows them."""
        obs = obs.obs if isinstance(obs, Masked) else obs
        inside = self.encoder.activations(obs) if hasattr(self.encoder, "activations") else {}
        x = self.encoder(obs)
        found = {f"encoder.{name}": values for name, values in inside.items()}
        for place, layer in enumerate(self.layers):
            x = found[str(place)] = ACTIVATIONS[self.activation](layer(x))
        return x, found


class NetworkTrace(NamedTuple):
    """A network seen from inside, over a batch."""

    outputs: Array  # (..., k) of the policy head: logits, or means of Gaussian actions
    distribution: Distribution
    values: Array  # (...)
    layers: dict[str, Array]  # (..., units) by trunk and place: `policy_trunk.0`


class ActorCritic(eqx.Module):
    """Two trunks (or one, shared), a policy head and a value head."""

    policy_trunk: Trunk
    value_trunk: Trunk | None  # None: the policy's trunk serves both
    policy_head: Linear
    value_head: Linear
    log_std: Array | None
    spaces: Spaces = eqx.field(static=True)
    settings: PolicySettings = eqx.field(static=True)

    def __init__(
        self, key: Array, spaces: Spaces, settings: PolicySettings, encoder: MakeEncoder = FlattenEncoder
    ) -> None:
        own = settings.hidden if settings.value_hidden is None else settings.value_hidden
        trunks = [settings.hidden] if settings.shared else [settings.hidden, own]
        keys = jax.random.split(key, 4)
        k_head, k_critic = keys[2:]
        # Both trunks' keys at once: every split is half a dozen kernels to compile. A key is the same for any count.
        k_encoders, k_trunks = jax.vmap(jax.random.split, out_axes=1)(keys[: len(trunks)])
        k_layers = jax.vmap(lambda key: jax.random.split(key, max(*map(len, trunks), 1)))(k_trunks)
        encoders = [encoder(k, spaces.observation) for k in k_encoders]
        sizes = [(made.size, *hidden) for made, hidden in zip(encoders, trunks, strict=True)]
        specs = [
            WeightSpec(k, (a, b), math.sqrt(2))
            for layers, of in zip(k_layers, sizes, strict=True)
            for k, a, b in zip(layers, of[:-1], of[1:], strict=False)
        ]
        specs.append(WeightSpec(k_critic, (sizes[-1][-1], 1), 1.0))
        # The small policy head makes the first policy near uniform, whatever the initialiser.
        specs.append(WeightSpec(k_head, (sizes[0][-1], output_count(spaces.action)), 0.01))
        *layers, self.value_head, self.policy_head = _linears(specs, settings)
        depth = len(settings.hidden)
        self.policy_trunk = Trunk(encoders[0], layers[:depth], settings.activation)
        self.value_trunk = None if settings.shared else Trunk(encoders[1], layers[depth:], settings.activation)
        self.log_std = _initial_log_std(spaces.action, settings, self.policy_trunk.size)
        self.spaces = spaces
        self.settings = settings

    def distribution(self, obs: Tree) -> Distribution:
        return self._distribution(self.policy_trunk(obs), obs)

    def value(self, obs: Tree) -> Array:
        return self.value_head((self.value_trunk or self.policy_trunk)(obs))[..., 0]

    def both(self, obs: Tree) -> tuple[Distribution, Array]:
        """Distribution and value, running a shared trunk once."""
        latent = self.policy_trunk(obs)
        value_latent = latent if self.value_trunk is None else self.value_trunk(obs)
        return self._distribution(latent, obs), self.value_head(value_latent)[..., 0]

    def look(self, obs: Tree) -> NetworkTrace:
        """What the network gives, and what its hidden layers do on the way."""
        latent, found = self.policy_trunk.activations(obs)
        layers = {f"policy_trunk.{place}": values for place, values in found.items()}
        value_latent = latent
        if self.value_trunk is not None:
            value_latent, found = self.value_trunk.activations(obs)
            layers |= {f"value_trunk.{place}": values for place, values in found.items()}
        values = self.value_head(value_latent)[..., 0]
        return NetworkTrace(self.policy_head(latent), self._distribution(latent, obs), values, layers)

    def act(self, obs: Tree, carry: Tree, key: Array, greedy: Array | bool) -> Decision:
        """Sample (or take the mode of) the distribution, with the log-probability of exactly that action."""
        latent = self.policy_trunk(obs)
        chosen = self._distribution(latent, obs)
        if self._gsde:
            assert isinstance(chosen, Gaussian)
            assert self.log_std is not None
            carry = gsde.hold_noise(carry, key, self.settings.gsde_every)
            sample = chosen.mean + gsde.exploration(latent, carry["noise"], self.log_std)
        else:
            sample = chosen.sample(key)
        action = where_rows(jnp.broadcast_to(greedy, sample.shape[:1]), chosen.mode(), sample)
        return Decision(action, chosen.log_prob(action), carry, {})

    def initial_carry(self, n_envs: int) -> Tree:
        if not self._gsde:
            return ()
        assert self.log_std is not None
        return gsde.initial_noise(n_envs, self.log_std.shape)

    @property
    def _gsde(self) -> bool:
        return self.settings.exploration == "gsde" and isinstance(self.spaces.action, gym_spaces.Box)

    def _distribution(self, latent: Array, obs: Tree) -> Distribution:
        mask = obs.mask if isinstance(obs, Masked) else None
        log_std = self.log_std
        if self._gsde:
            assert log_std is not None
            log_std = gsde.action_log_std(latent, log_std)
        return action_distribution(self.spaces.action, self.policy_head(latent), log_std, mask)


def _initial_log_std(space: Space, settings: PolicySettings, latent: int) -> Array | None:
    if not isinstance(space, gym_spaces.Box):
        return None
    shape = (latent, output_count(space)) if settings.exploration == "gsde" else (output_count(space),)
    return jnp.full(shape, settings.log_std_init, jnp.float32)
