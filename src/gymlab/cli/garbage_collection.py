"""While a run starts, garbage is not looked for: nearly all that is made then stays as long as the run."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Announce = Callable[..., Any]


@contextmanager
def no_collecting() -> Iterator[Callable[[Announce], Announce]]:
    """Gives a function to wrap what announces the run: from then on garbage is collected, among what is made later."""

    def until(announce: Announce) -> Announce:
        def announced(*arguments: Any) -> None:
            gc.freeze()
            gc.enable()
            announce(*arguments)

        return announced

    gc.disable()
    try:
        yield until
    finally:
        gc.enable()
        gc.unfreeze()
