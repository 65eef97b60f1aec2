"""The playground's worker process, which trains: `python -m gymlab.web.playground.training_worker`.

Between two calls of compiled code it answers what was asked meanwhile: `start`, `set`, `episode`, `pause`. The
training is the progress of `run`, which is answered once it pauses.
"""

from __future__ import annotations

import contextlib
import os
import queue
from pathlib import Path
from typing import TYPE_CHECKING

from gymlab.web.workers.request_loop import RequestChannel, format_fault

if TYPE_CHECKING:
    from gymlab.media.episode_trace import TraceDecision
    from gymlab.media.policy_player import PolicyPlayer
    from gymlab.web.playground.interactive_trainer import PlaygroundTrainer
    from gymlab.web.workers.answers import PlaygroundEpisode, PlaygroundFacts

_MOST_STEPS = 300  # of an episode that is shown


def main() -> None:
    """Serve until the parent exits."""
    line = RequestChannel()
    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)  # behind the page that shows it
    worker = PlaygroundWorker(line)
    while True:
        try:
            question = line.asked.get(block=not worker.running)
        except queue.Empty:
            worker.train()
            continue
        if question["ask"] == "run":
            worker.run(question["id"])
        else:
            line.answer(worker, question)


class PlaygroundWorker:
    """One game at a time."""

    def __init__(self, line: RequestChannel) -> None:
        self._line = line
        self._trainer: PlaygroundTrainer | None = None
        self._player: PolicyPlayer | None = None
        self._number = 0  # of the question whose progress the training is
        self._shows = 0
        self.running = False

    def train(self) -> None:
        """One call of compiled code; its result is the progress of `run`."""
        assert self._trainer is not None
        try:
            self._line.say(id=self._number, progress=self._trainer.advance())
        except Exception as error:  # non-finite numbers are a legitimate outcome here: the page shows the error
            self.running = False
            self._line.say(id=self._number, error=format_fault(error))

    def run(self, number: int) -> None:
        """Train until `pause`."""
        self.ask_pause(number)
        if self._trainer is None:
            self._line.say(id=number, error="nothing has been started yet")
        else:
            self._number = number
            self.running = True

    def ask_start(self, number: int, game: str, seed: int) -> PlaygroundFacts:
        from gymlab.web.playground.interactive_trainer import PlaygroundTrainer

        self.ask_pause(number)
        self._trainer = PlaygroundTrainer(game, seed)
        self._player = None
        parts = self._trainer.parts
        return {"values": self._trainer.values, "n_envs": parts.recipe.n_envs, "n_steps": parts.recipe.n_steps}

    def ask_pause(self, _: int) -> None:
        if self.running:
            self.running = False
            self._line.say(id=self._number, answer=None)

    def ask_set(self, _: int, name: str, value: float) -> None:
        assert self._trainer is not None
        self._trainer.set(name, value)

    def ask_episode(self, _: int, folder: str, seed: int) -> PlaygroundEpisode:
        """Play an episode of the present policy in the real env and write its pictures."""
        from gymlab.media.camera import Camera
        from gymlab.media.policy_player import EpisodeOptions
        from gymlab.web.workers.episode_pictures import PictureFolder

        assert self._trainer is not None
        player = self._opened()
        for shown in Path(folder).glob(f"e{self._shows}-*.png"):
            shown.unlink()
        self._shows += 1
        album = PictureFolder(Path(folder), f"e{self._shows}", player.spaces.observation, 1)
        files: list[str] = []

        def draw(moment: TraceDecision) -> None:
            if isinstance(player.env, Camera):
                files.append(album.add_env(moment.step, player.env.picture()))

        episode = player.play(self._trainer.policy, EpisodeOptions(seed, max_steps=_MOST_STEPS), draw)
        return {"files": files, "return": episode.total, "length": len(episode.rows)}

    def _opened(self) -> PolicyPlayer:
        from gymlab.media.play_session import open_env
        from gymlab.media.policy_player import open_player

        assert self._trainer is not None
        if self._player is None:
            recipe = self._trainer.parts.recipe
            env = open_env(recipe)
            self._player = open_player(recipe, lambda _: env)
        return self._player


if __name__ == "__main__":
    main()
