"""The `policy:` block of a recipe: the one place where architecture is described."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from gymlab.core.clock import Count, Number
from gymlab.core.errors import suggestion
from gymlab.core.settings import ReadWhen, Settings

ENCODER_NAMES = ("nature_cnn", "impala_cnn", "small_cnn")
Activation = Literal["tanh", "relu", "gelu", "silu", "elu", "leaky_relu"]


class PolicySettings(Settings):
    """Network shape and exploration."""

    hidden: tuple[Annotated[Count, Field(ge=1)], ...] = (64, 64)
    """Units of each hidden layer of the policy (and of the value net unless `value_hidden` is set)."""
    value_hidden: Annotated[tuple[Annotated[Count, Field(ge=1)], ...] | None, ReadWhen("separate networks")] = None
    """Units of the value net's hidden layers; default: as `hidden`."""
    activation: Annotated[Activation, ReadWhen("hidden layers")] = "tanh"
    """Activation of the hidden layers."""
    shared: bool = False
    """One trunk for policy and value instead of two."""
    ortho_init: bool = True
    """Orthogonal initial weights (gain sqrt 2, policy head 0.01, value head 1)."""
    log_std_init: Annotated[Number, ReadWhen("continuous actions")] = 0.0
    """Initial log standard deviation of Gaussian actions."""
    exploration: Annotated[Literal["gaussian", "gsde"], ReadWhen("continuous actions")] = "gaussian"
    """Noise of continuous actions: independent each step, or state dependent and held for a while (gSDE)."""
    gsde_every: Annotated[Count, Field(ge=1), ReadWhen("gsde")] = 64
    """Steps for which gSDE holds one noise matrix."""
    encoder: str | None = None
    """How pictures are read: nature_cnn, impala_cnn or small_cnn; or an encoder of one's own, by reference: an
    equinox.Module `Encoder(key, space)` with `size` and a call that maps observations with any leading axes to
    (..., size). Default: what suits the shape of pictures; all else flattened, choices one-hot."""

    @field_validator("encoder")
    @classmethod
    def _known(cls, name: str | None) -> str | None:
        if name is not None and ":" not in name and name not in ENCODER_NAMES:
            known = suggestion(name, ENCODER_NAMES)
            raise ValueError(f"unknown encoder '{name}': {known} (or give one as module:Name)")
        return name
