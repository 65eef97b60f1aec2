"""Learning: each call runs the loop of every run, from where the model stands."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any, ClassVar, Self

from gymlab.core.clock import Clock
from gymlab.core.errors import UserError
from gymlab.recipes.schema import Recipe, Steps
from gymlab.sb3 import saving
from gymlab.sb3.callbacks import BaseCallback, as_callback
from gymlab.sb3.lesson import Aborted, Lesson, Trainer
from gymlab.sb3.logger import Tables
from gymlab.sb3.model import Model
from gymlab.sb3.programs import use_device
from gymlab.session.build import histogram_rule, make_plan
from gymlab.training.events import Feature
from gymlab.training.loop import Loop, RunPlan
from gymlab.training.state import TrainState


class SlowerEngine(UserWarning):
    """A compiled env was passed over for something that needs the host."""


class Learner(Model):
    """A model that can learn."""

    LOG_INTERVAL: ClassVar[int] = 1

    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int | None = None,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        run: str | bool | None = None,
        runs_dir: str | Path | None = None,
    ) -> Self:
        """Train for at least this many transitions, in whole rollouts. Keeps no run unless `run` asks for one."""
        del tb_log_name
        if not total_timesteps >= 1:
            raise UserError(f"learn: total_timesteps={total_timesteps} must be at least 1")
        listener = as_callback(callback, progress_bar=progress_bar)
        trainer = self._choose(listener, run)
        state, clock = self._begin(trainer, reset=reset_num_timesteps)
        budget = Steps(count=clock.env_steps + int(total_timesteps))
        recipe = trainer.parts.recipe.model_copy(update={"budget": budget})
        plan = make_plan(recipe, budget)
        # What the trainer was built with says nothing about this call; a run looks as `gymlab train` would.
        looked = dataclasses.replace(trainer.parts, recipe=recipe, plan=plan)
        trainer.parts.histogram_schedule.rule = histogram_rule(looked) if run else lambda _: False
        lesson = Lesson(self, trainer, listener, budget.count)
        features: list[Feature] = [lesson]
        if self.values["verbose"]:
            features.append(Tables(self.logger, log_interval or self.LOG_INTERVAL))
        self._lesson = lesson
        try:
            lesson.begin(state, clock)
            if run:
                self._run(trainer, recipe, plan, features, (run, runs_dir))
            else:
                Loop(lesson, plan, features).run(state, clock)
        except Aborted:
            pass
        finally:
            self._finish(trainer, lesson)
        return self

    def _choose(self, callback: BaseCallback | None, run: str | bool | None) -> Trainer:
        """The trainer this call needs, and a word on it."""
        per_step = callback is not None and callback.per_step
        objects = per_step or self._needs_objects
        if run and objects:
            raise UserError(
                "learn: a run can be kept of an env by its id and without callbacks for every step: "
                "use `gymlab train` or leave out run="
            )
        if per_step and not self._needs_objects and self.engine == "jax":
            warnings.warn(
                f"{type(callback).__name__} is called at every step: training on the host engine (Gymnasium) instead "
                "of the compiled env. With `per_step = False` in its class it is called once per update instead",
                SlowerEngine,
                stacklevel=3,
            )
        trainer = self._trainer(objects=objects)
        use_device(trainer.parts.recipe)
        if self.values["verbose"]:
            chosen = trainer.parts.chosen
            spaces = trainer.parts.spaces
            print(
                f"Training on {trainer.parts.recipe.env.id} with the {chosen.engine} engine on the {chosen.device}, "
                f"episodes of at most {spaces.max_episode_steps} steps"
            )
        return trainer

    def _begin(self, trainer: Trainer, *, reset: bool) -> tuple[TrainState, Clock]:
        """Where this call starts: as the model stood, as it was saved, or with new episodes."""
        self._spaces = trainer.parts.spaces
        self._left_over = 0
        program = trainer.parts.program
        plan = trainer.parts.plan
        saved = self._saved
        self._saved = None
        if not reset and self._standing is trainer and trainer.continues:
            assert self._state is not None
            return self._state, self._clock
        if saved is not None and saved.envs == saving.standing(trainer):
            # Also before a new start: the envs' episodes are then counted on, and none is played twice.
            state, _ = program.load(program.start(self.seed), saved.tensors)
            if not reset:
                return state, saving.rebased(self._clock, plan)
        begun = program.start(self._stream_seed(), ahead=True)
        self._starts += 1
        if self._state is None:
            return begun, Clock()
        state = saving.adopted(trainer.parts.agent, begun, self._state)
        if reset:
            return state, Clock()
        return state._replace(key=self._state.key), saving.rebased(self._clock, plan)

    def _finish(self, trainer: Trainer, lesson: Lesson) -> None:
        self._state = lesson.current
        self._clock = lesson.clock
        self._left_over = lesson.steps * self.n_envs  # of a rollout that was broken off
        self._standing = trainer if lesson.whole else None
        self._lesson = None
        lesson.end()

    def _run(
        self, trainer: Trainer, recipe: Recipe, plan: RunPlan, features: list[Feature], named: tuple[Any, Any]
    ) -> None:
        """The same with a run directory, as `gymlab train` keeps it."""
        from gymlab.envs.registry import spec_threshold
        from gymlab.recipes.project_settings import runs_folder
        from gymlab.runs.store import RunStore
        from gymlab.session.session import Options, Session, Start

        run, folder = named
        lesson = self._lesson
        assert lesson is not None
        assert lesson.current is not None
        env = recipe.env.model_copy(update={"solved_at": spec_threshold(recipe.env.id)})
        recipe = recipe.model_copy(update={"env": env})
        parts = dataclasses.replace(trainer.parts, recipe=recipe, program=lesson, plan=plan)
        options = Options(seed=self.seed, full_budget=True)
        with RunStore.create(folder or runs_folder(), run if isinstance(run, str) else None, name=recipe.name) as store:
            session = Session(parts, store, options, features)
            session.write_manifest()
            session.run(lesson.current, Start(lesson.clock, horizon=recipe.budget))
