"""Answers of `gymlab explain`. A module with something to explain offers `names()` and `explain(name)`."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Explanation(NamedTuple):
    """The explanation of one name: a metric, a setting, an alert."""

    name: str
    kind: str
    help: str
    facts: dict[str, str]  # by title, in the order of printing

    def text(self) -> str:
        """As paragraphs for a terminal."""
        width = max((len(title) for title in self.facts), default=0)
        lines = [f"  {title:<{width}}  {fact}" for title, fact in self.facts.items()]
        return "\n".join([f"{self.name} ({self.kind})", f"  {self.help}", *lines])


class ExplanationSource(Protocol):
    """A module of explanations."""

    def names(self) -> list[str]:
        """All names that have an explanation, for did-you-mean."""
        ...

    def explain(self, name: str) -> list[Explanation]:
        """The explanations of a name: none where it is unknown, several where it is ambiguous."""
        ...
