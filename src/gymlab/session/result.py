"""Result: how a session ended, as text and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gymlab.core.clock import Clock
from gymlab.runs.records import ResultRecord
from gymlab.training.events import Control, Evaluated, Event, Feature


class LatestEvaluation(Feature):
    """Remembers the last evaluation."""

    name = "latest"
    evaluated: Evaluated | None = None

    def __call__(self, event: Event, control: Control) -> None:
        del control
        if isinstance(event, Evaluated):
            self.evaluated = event

    def solved(self, threshold: float | None, solved_by: str) -> bool | None:
        """Whether the score reached the threshold; None where there is no threshold or no score."""
        if threshold is None or self.evaluated is None or self.evaluated.kind != "final":
            return None
        return self.evaluated.evaluation.judged_by(solved_by) >= threshold


@dataclass(frozen=True)
class Result:
    """The outcome of a session, which `--json` prints."""

    run_id: str
    run_dir: Path
    status: str
    stop_reason: str
    clock: Clock
    solved: bool | None
    evaluated: Evaluated | None
    checkpoint: str | None
    exit_code: int
    films_left: int = 0  # made by the recorder process after the session

    def summary(self, seconds: float) -> list[str]:
        """Lines for people: the outcome and the next command. `seconds`: since the command was started."""
        clock = self.clock
        lines = [
            f"{self.status}: {self.stop_reason} after {clock.env_steps} env_steps "
            f"({clock.vec_steps} vec_steps, {clock.updates} updates) "
            f"in {clock.seconds:.1f} s of training, {seconds:.1f} s in all"
        ]
        if self.evaluated is not None:
            greedy = self.evaluated.evaluation.greedy
            sampled = self.evaluated.evaluation.sampled
            unknown = "no threshold" if self.evaluated.kind == "final" else "no score yet"
            verdict = {True: "solved", False: "not solved", None: unknown}[self.solved]
            earlier = self.evaluated.clock.env_steps
            when = "" if earlier == clock.env_steps else f", at {earlier} env_steps"
            lines.append(
                f"{verdict}: greedy {greedy.mean:.2f} ± {greedy.std:.2f}, "
                f"sampled {sampled.mean:.2f} ± {sampled.std:.2f} over {self.evaluated.evaluation.episodes} each{when}"
            )
        lines.append(f"run: {self.run_dir}")
        again = f"gymlab resume {self.run_id}" if self.status == "stopped" else f"gymlab runs show {self.run_id}"
        lines.append(f"next: {again}")
        if self.films_left:
            films = "1 film is" if self.films_left == 1 else f"{self.films_left} films are"
            lines.append(f"{films} still being made: {self.run_dir / 'videos'}")
        return lines

    def as_json(self) -> ResultRecord:
        return {
            "run_id": self.run_id,
            "run_dir": str(self.run_dir),
            "status": self.status,
            "stop_reason": self.stop_reason,
            "env_steps": self.clock.env_steps,
            "vec_steps": self.clock.vec_steps,
            "updates": self.clock.updates,
            "seconds": round(self.clock.seconds, 3),
            "solved": self.solved,
            "eval": None if self.evaluated is None else self.evaluated.evaluation.as_json(),
            "checkpoint": self.checkpoint,
            "eval_source": None if self.evaluated is None else self.evaluated.evaluation.source,
        }
