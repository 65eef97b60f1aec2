"""What `gymlab explain` answers. A module that has something to explain offers `names()` and `explain(name)`."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Explanation(NamedTuple):
    """One thing with a name: a metric, a setting, an alert."""

    name: str
    kind: str
    help: str
    facts: dict[str, str]  # what there is to know, by title, in the order in which it is told

    def text(self) -> str:
        """As paragraphs for a terminal."""
        width = max((len(title) for title in self.facts), default=0)
        lines = [f"  {title:<{width}}  {fact}" for title, fact in self.facts.items()]
        return "\n".join([f"{self.name} ({self.kind})", f"  {self.help}", *lines])


class Source(Protocol):
    """A module of explanations."""

    def names(self) -> list[str]:
        """Everything that can be asked for, for did-you-mean."""
        ...

    def explain(self, name: str) -> list[Explanation]:
        """What goes by this name; [] where nothing does, several where it is ambiguous."""
        ...
