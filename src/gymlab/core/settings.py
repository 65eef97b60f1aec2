"""`Settings`: the base class of every settings model, and `ReadWhen`: on what the use of a setting depends."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Frozen; unknown names are refused. A field's docstring is its help text everywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


@dataclass(frozen=True)
class ReadWhen:
    """Annotation of a setting that is not read in every run: the condition's name in `session/unread_settings.py`."""

    condition: str
