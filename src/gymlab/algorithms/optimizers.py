"""Running moments of gradients, and the directions they make: Adam (Kingma & Ba, 2015), RMSprop (Hinton, 2012), none.

As Optax has them, to the last bit (tests/algorithms/test_optimizers.py), without its import: a tenth of a second and
6 MB in every process.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gymlab.core.types import Array, Tree

_FIRST = 0.9  # decays: Adam's two, RMSprop's
_SECOND = 0.999
_SQUARES = 0.99
_MOST = jnp.iinfo(jnp.int32).max


class Adam(NamedTuple):
    count: Array
    mu: Tree
    nu: Tree

    @classmethod
    def init(cls, params: Tree) -> Adam:
        return cls(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))

    def update(self, grads: Tree, eps: float) -> tuple[Tree, Adam]:
        """The directions to go, and the new moments."""
        mu = jax.tree.map(lambda g, m: (1 - _FIRST) * g + _FIRST * m, grads, self.mu)
        nu = _squares(grads, self.nu, _SECOND)
        count = jnp.where(self.count < _MOST, self.count + 1, _MOST)
        first = 1 - _FIRST**count  # what moments that began at zero lack
        second = 1 - _SECOND**count
        return jax.tree.map(lambda m, v: (m / first) / (jnp.sqrt(v / second) + eps), mu, nu), Adam(count, mu, nu)


class RmsProp(NamedTuple):
    nu: Tree

    @classmethod
    def init(cls, params: Tree) -> RmsProp:
        return cls(jax.tree.map(jnp.zeros_like, params))

    def update(self, grads: Tree, eps: float) -> tuple[Tree, RmsProp]:
        nu = _squares(grads, self.nu, _SQUARES)
        return jax.tree.map(lambda v, g: (1 / (jnp.sqrt(v) + eps)) * g, nu, grads), RmsProp(nu)


class Plain(NamedTuple):
    """The gradient itself."""

    @classmethod
    def init(cls, params: Tree) -> Plain:
        del params
        return cls()

    def update(self, grads: Tree, eps: float) -> tuple[Tree, Plain]:
        del eps
        return grads, self


Moments = Adam | RmsProp | Plain
KINDS: dict[str, type[Adam] | type[RmsProp] | type[Plain]] = {"adam": Adam, "rmsprop": RmsProp, "sgd": Plain}


def _squares(grads: Tree, before: Tree, decay: float) -> Tree:
    return jax.tree.map(lambda g, v: (1 - decay) * (g**2) + decay * v, grads, before)
