"""What a run says while it runs: a live view in a terminal, plain lines elsewhere, JSON lines for programs."""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from gymlab.core.clock import Clock, short
from gymlab.training.events import Checkpointed, Control, Ended, Evaluated, Event, Feature, Started, Updated

log = logging.getLogger(__name__)
BLOCKS = "▁▂▃▄▅▆▇█"
LINE_SECONDS = 5.0  # between plain lines
FRAME_SECONDS = 0.1
HISTORY = 40


def sparkline(values: list[float], width: int = HISTORY) -> str:
    """The last values as blocks, lowest to highest."""
    shown = [value for value in values if not math.isnan(value)][-width:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    span = (high - low) or 1.0
    return "".join(BLOCKS[int((value - low) / span * (len(BLOCKS) - 1))] for value in shown)


def duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


class View:
    """The numbers a person wants to see, kept current."""

    def __init__(self) -> None:
        self.clock, self.progress = Clock(), 0.0
        self.row: dict[str, float] = {}
        self.returns: deque[float] = deque(maxlen=HISTORY)
        self.evaluated: Evaluated | None = None
        self.sps = float("nan")
        self._mark: Clock | None = None  # where speed is counted from: the first call compiles and is left out

    def update(self, event: Updated) -> None:
        self.clock, self.row = event.clock, dict(event.rows[-1].metrics)
        self.progress = self.row["time/progress"]
        self.returns.extend(row.metrics["roll/return_mean"] for row in event.rows)
        mark = self._mark
        if mark is None:
            self._mark = event.clock
        elif event.clock.seconds - mark.seconds > 0.5 or math.isnan(self.sps):
            self.sps = (event.clock.env_steps - mark.env_steps) / max(event.clock.seconds - mark.seconds, 1e-9)
            self._mark = event.clock

    def line(self) -> str:
        """Steps, episodes, return, speed and time left in one line."""
        clock = self.clock
        left = clock.env_steps * (1 - self.progress) / self.progress / self.sps if self.progress else math.nan
        parts = [
            f"{self.progress:4.0%}",
            f"{short(clock.vec_steps)} vec_steps ({short(clock.env_steps)} env)",
            f"{clock.episodes} episodes",
            f"return {self.returned()}",
            f"{'-' if math.isnan(self.sps) else short(round(self.sps))} steps/s",
            duration(clock.seconds),
            f"eta {'-' if math.isnan(left) else duration(left)}",
        ]
        return " · ".join(parts)

    def returned(self) -> str:
        """The mean return of the training window, labelled while the window is not full."""
        if not self.row.get("roll/return_window"):
            return "- (no episode finished)"
        partial = "" if self.row["roll/return_window"] >= 100 else " (partial)"
        return f"{self.row['roll/return_mean']:.1f}{partial}"

    def evaluation(self) -> str:
        if self.evaluated is None:
            return ""
        greedy, sampled = self.evaluated.evaluation.greedy, self.evaluated.evaluation.sampled
        name = "confirming eval" if self.evaluated.kind == "confirm" else "eval"
        return (
            f"{name} at {short(self.evaluated.clock.env_steps)} env_steps: "
            f"greedy {greedy.mean:.1f} ± {greedy.std:.1f}, "
            f"sampled {sampled.mean:.1f} ± {sampled.std:.1f} ({greedy.n} episodes each)"
        )


class Console(Feature):
    """The quiet base: announces nothing, shows nothing."""

    name = "console"

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def announce(self, parts: Any, notes: list[str]) -> None:
        """Called once, when everything is ready, with the run's parts."""

    def __enter__(self) -> Console:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back."""


class Lines(Console):
    """One line every few seconds and one per evaluation: for logs and pipes."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__(notes)
        self.view = View()
        self._printed = time.monotonic()

    def announce(self, parts: Any, notes: list[str]) -> None:
        print(first_line(parts), flush=True)
        for note in [*self.notes, *notes]:
            print(f"note: {note}", flush=True)

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated):
            self.view.update(event)
            if time.monotonic() - self._printed >= LINE_SECONDS:
                self._print(self.view.line())
        elif isinstance(event, Evaluated) and event.kind != "final":
            self.view.evaluated = event
            self._print(self.view.evaluation())

    def _print(self, text: str) -> None:
        self._printed = time.monotonic()
        print(text, flush=True)


class Live(Console):
    """A few lines redrawn in place."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__(notes)
        from rich.console import Console as RichConsole
        from rich.live import Live as RichLive

        self.view = View()
        self._console = RichConsole(highlight=False)
        self._live = RichLive(console=self._console, auto_refresh=False, transient=True)
        self._drawn = 0.0

    def announce(self, parts: Any, notes: list[str]) -> None:
        self._console.print(f"[bold]{first_line(parts)}[/bold]")
        for note in [*self.notes, *notes]:
            self._console.print(f"[dim]note: {note}[/dim]", soft_wrap=True)
        self._live.start()
        self._live.update("compiling ...", refresh=True)

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated):
            self.view.update(event)
            if time.monotonic() - self._drawn >= FRAME_SECONDS:
                self._draw()
        elif isinstance(event, Evaluated):
            self.view.evaluated = event
            if event.kind != "final":
                self._console.print(self.view.evaluation())
        elif isinstance(event, Ended):
            self._live.stop()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _draw(self) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        view = self.view
        self._drawn = time.monotonic()
        rows = Table.grid()
        rows.add_row(ProgressBar(total=1.0, completed=view.progress, width=HISTORY))
        rows.add_row(Text(view.line()))
        rows.add_row(Text(sparkline(list(view.returns)), style="green"))
        self._live.update(rows, refresh=True)


class JsonLines(Console):
    """Every event that matters to a program, one JSON object a line."""

    def announce(self, parts: Any, notes: list[str]) -> None:
        self._write("ready", line=first_line(parts), notes=[*self.notes, *notes])

    def __call__(self, event: Event, control: Control) -> None:
        clock = event.clock._asdict()
        if isinstance(event, Started):
            self._write("started", **clock, resumed=event.resumed)
        elif isinstance(event, Updated):
            for row in event.rows:
                self._write("updated", **row.clock._asdict(), metrics=_finite(dict(row.metrics)))
        elif isinstance(event, Evaluated):
            self._write("evaluated", **clock, kind=event.kind, **event.evaluation.as_json())
        elif isinstance(event, Checkpointed):
            self._write("checkpoint", **clock, checkpoint=event.path.name, kinds=list(event.kinds))
        elif isinstance(event, Ended):
            self._write("ended", **clock, reason=event.reason, status=event.status)

    def _write(self, event: str, **fields: Any) -> None:
        print(json.dumps({"event": event, **fields}), flush=True)


def _finite(row: dict[str, float]) -> dict[str, float | None]:
    return {name: value if abs(value) < float("inf") else None for name, value in row.items()}


def first_line(parts: Any) -> str:
    """What is about to happen: recipe, engine, device, shape, budget, seed, goal."""
    recipe, chosen = parts.recipe, parts.chosen
    engine = f"{chosen.engine} engine" + (" (evaluated on Gymnasium)" if chosen.engine == "jax" else "")
    goal = recipe.stop.eval_return if recipe.stop.eval_return is not None else recipe.env.solved_at
    fields = [
        recipe.name,
        engine,
        chosen.device,
        f"{recipe.n_envs}x{recipe.n_steps} ({size(parts.rollout_bytes)})",
        str(recipe.budget),
        f"seed {parts.seed}",
        f"stops at {goal:g}" if goal is not None and not parts.full_budget else "uses the whole budget",
        *parts.trackers,
    ]
    return " · ".join(fields)


class Steady(Console):
    """Shows what another console does; when its terminal or pipe is gone the run goes on in silence."""

    def __init__(self, shown: Console) -> None:
        super().__init__(shown.notes)
        self._shown = shown

    def announce(self, parts: Any, notes: list[str]) -> None:
        with self._heard():
            self._shown.announce(parts, notes)

    def __call__(self, event: Event, control: Control) -> None:
        with self._heard():
            self._shown(event, control)

    def __exit__(self, *error: Any) -> None:
        with self._heard():
            self._shown.__exit__(*error)

    @contextmanager
    def _heard(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _silence()
            log.warning("the output is gone (%s): the run goes on in silence", error)


def _silence() -> None:
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        out, err = sys.stdout.fileno(), sys.stderr.fileno()
        same = os.path.samestat(os.fstat(out), os.fstat(err))
        for stream in (out, err) if same else (out,):
            os.dup2(nowhere.fileno(), stream)


def make_console(mode: str, notes: list[str]) -> Console:
    """The console for an output mode: people, quiet, json or jsonl."""
    return Steady(_console(mode, notes))


def _console(mode: str, notes: list[str]) -> Console:
    if mode == "jsonl":
        return JsonLines(notes)
    if mode != "people":
        return Console(notes)
    return Live(notes) if sys.stdout.isatty() else Lines(notes)
