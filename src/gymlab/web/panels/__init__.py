"""Parts of a run's page. Each is a class with `build` and an asynchronous `refresh`, called when the run has changed
and the part is in sight.
"""

from __future__ import annotations

from typing import Protocol


class RunPanel(Protocol):
    """A tab of a run's page."""

    def build(self) -> None:
        """Create the elements, once, in the current slot of the page."""
        ...

    async def refresh(self) -> None:
        """Update the elements."""
        ...
