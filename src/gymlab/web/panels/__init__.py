"""Parts of a run's page. Each is a class with `build` and an asynchronous `refresh`, called when the run has changed
and the part is in sight.
"""

from __future__ import annotations

from typing import Protocol


class RunPanel(Protocol):
    """A tab of a run's page."""

    def build(self) -> None:
        """Make the elements, once, where the page stands."""
        ...

    async def refresh(self) -> None:
        """Show what is new."""
        ...
