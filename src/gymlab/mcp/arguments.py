"""Argument types that tools share, with the bounds that pydantic checks before a tool runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Run = Annotated[str, Field(min_length=1, max_length=128, description="Run id, unique beginning, @last or @best:ENV.")]
Checkpoint = Annotated[
    str, Field(min_length=1, max_length=160, description="RUN, RUN/best, RUN/last or RUN/50000; a bare RUN: its best.")
]
Recipe = Annotated[str, Field(min_length=1, max_length=200, description="ENV[:VARIANT], e.g. CartPole-v1:ppo.")]
Override = Annotated[str, Field(min_length=3, max_length=1000)]
Overrides = Annotated[
    list[Override] | None, Field(max_length=64, description="key=value each, e.g. ppo.learning_rate=1e-3.")
]
Budget = Annotated[str | None, Field(max_length=40, description="When to end, e.g. '100k' or '1M env_steps'.")]
Key = Annotated[
    str | None,
    Field(max_length=100, pattern=r"^[\w.:-]+$", description="Idempotency key: asked again, nothing starts anew."),
]
Tags = Annotated[list[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]] | None, Field(max_length=16)]
Limit = Annotated[int, Field(ge=1, le=100)]
Offset = Annotated[int, Field(ge=0)]
Query = Annotated[str, Field(max_length=100, description="Only names that contain this.")]
