"""At which updates distributions are taken: by a rule of the recipe's, and when somebody asked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Rule = Callable[[int], bool]  # update number, from 1


class Looks:
    """What the program of a run asks before each update. Which updates are looked at changes no result."""

    def __init__(self, rule: Rule = lambda _: False) -> None:
        self.rule = rule
        self.asked: set[int] = set()

    def ask(self, update: int) -> None:
        """Look at this update too."""
        self.asked.add(update)

    def forget(self, update: int) -> None:
        """Everything up to this update is done."""
        self.asked = {asked for asked in self.asked if asked > update}

    def at(self, first: int, count: int) -> np.ndarray:
        """Whether each of `count` updates after the first `first` of a run is looked at."""
        numbers = range(first + 1, first + count + 1)
        return np.array([number in self.asked or self.rule(number) for number in numbers], bool)
