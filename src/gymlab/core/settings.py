"""`Settings`: the base class of every settings model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Frozen; unknown names are refused. A field's docstring is its help text everywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
