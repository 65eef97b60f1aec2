"""The logger of a model: prints tables like Stable-Baselines3's while it learns."""

from __future__ import annotations

import time
from typing import Any

from gymlab.training.events import Control, Ended, Event, Feature, Updated

_SECONDS = 1.0  # between tables at least: a compiled env does thousands of updates a second
_ROWS = {
    "rollout/ep_len_mean": "roll/length_mean",
    "rollout/ep_rew_mean": "roll/return_mean",
    "train/approx_kl": "opt/approx_kl",
    "train/clip_fraction": "opt/clip_fraction",
    "train/clip_range": "hp/clip_range",
    "train/entropy": "opt/entropy",
    "train/explained_variance": "opt/explained_variance",
    "train/learning_rate": "hp/learning_rate",
    "train/loss": "opt/loss",
    "train/policy_gradient_loss": "opt/policy_loss",
    "train/value_loss": "opt/value_loss",
}


class Logger:
    """`record` values under `group/name`; they are printed with the next table and then cleared."""

    def __init__(self) -> None:
        self.name_to_value: dict[str, Any] = {}
        self._counts: dict[str, int] = {}

    def record(self, key: str, value: Any, exclude: Any = None) -> None:
        del exclude
        self.name_to_value[key] = value

    def record_mean(self, key: str, value: float, exclude: Any = None) -> None:
        """The mean of all values recorded under this name since the last table."""
        del exclude
        count = self._counts.get(key, 0)
        self.name_to_value[key] = (self.name_to_value.get(key, 0.0) * count + value) / (count + 1)
        self._counts[key] = count + 1

    def dump(self, step: int = 0) -> None:
        """Print and clear the recorded values."""
        del step
        if self.name_to_value:
            print(table(self.name_to_value), flush=True)
        self.clear()

    def clear(self) -> None:
        self.name_to_value = {}
        self._counts = {}


class Tables(Feature):
    """Prints a table every `interval` updates, though not more than once a second, and one at the end."""

    name = "tables"

    def __init__(self, logger: Logger, interval: int) -> None:
        self._logger = logger
        self._interval = max(1, interval)
        self._printed_updates = 0
        self._printed = time.monotonic() - _SECONDS
        self._latest: Updated | None = None

    def __call__(self, event: Event, control: Control) -> None:
        del control
        if isinstance(event, Updated):
            self._latest = event
            due = event.clock.updates - self._printed_updates >= self._interval
            if due and time.monotonic() - self._printed >= _SECONDS:
                self._print(event)
        elif isinstance(event, Ended) and self._latest is not None:
            latest = self._latest
            self._latest = None
            if latest.clock.updates > self._printed_updates:
                self._print(latest)

    def _print(self, event: Updated) -> None:
        self._printed_updates = event.clock.updates
        self._printed = time.monotonic()
        clock = event.clock
        row = event.rows[-1].metrics
        values: dict[str, Any] = {name: row[source] for name, source in _ROWS.items() if source in row}
        values |= {
            "time/fps": int(clock.env_steps / max(clock.seconds, 1e-9)),
            "time/iterations": clock.updates,
            "time/time_elapsed": int(clock.seconds),
            "time/total_timesteps": clock.env_steps,
        }
        print(table({**values, **self._logger.name_to_value}), flush=True)
        self._logger.clear()


def table(values: dict[str, Any]) -> str:
    """Values as a framed table, grouped by prefix."""
    lines: list[tuple[str, str]] = []
    group = ""
    for name in sorted(values):
        head, _, tail = name.rpartition("/")
        if head != group and head:
            lines.append((f"{head}/", ""))
        group = head
        lines.append((f"   {tail}" if head else tail, _format_value(values[name])))
    left = max(len(line[0]) for line in lines)
    right = max(len(line[1]) for line in lines)
    rule = "-" * (left + right + 7)
    return "\n".join([rule, *(f"| {key:<{left}} | {value:<{right}} |" for key, value in lines), rule])


def _format_value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
