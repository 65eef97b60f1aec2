"""`gymlab.load`: a trained policy or a saved model, for acting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gymlab.core.errors import UserError
from gymlab.sb3.model import MODELS
from gymlab.sb3.saving import read_model, with_suffix
from gymlab.session.predictor import Predictor, compile_agent
from gymlab.training.state import Policy


class TrainedPolicy:
    """A run's policy. Observations are taken as the policy sees them: after the recipe's transforms, if it has any."""

    def __init__(self, predictor: Predictor, policy: Policy, run: str, checkpoint: str) -> None:
        self._predictor = predictor
        self._policy = policy
        self.run = run
        self.checkpoint = checkpoint

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[np.ndarray, Any]:
        """The action for one observation, or one per row of a batch, as the env takes it, and the memory after it."""
        return self._predictor(
            self._policy, observation, deterministic=deterministic, state=state, episode_start=episode_start
        )


def load(what: str | Path) -> Any:
    """A run (id, prefix, path, `@last`, `@best:ENV`; with `/best`, `/last` or `/50000` behind it) or a model's .zip."""
    path = Path(what)
    if path.suffix == ".zip" or (not path.is_dir() and with_suffix(path).is_file()):
        kind = read_model(path).about.get("class")
        if kind not in MODELS:
            raise UserError(f"'{path}' holds a model of the unknown class {kind!r}")
        return MODELS[kind].load(path)
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.selection import select_checkpoint
    from gymlab.session.build import load_run

    paths, which = select_checkpoint(str(what), runs_folder())
    parts, policy, checkpoint = load_run(paths, which)
    parts.program.close()
    predictor = Predictor(compile_agent(parts.agent, parts.recipe.n_envs), parts.spaces, parts.seed)
    return TrainedPolicy(predictor, policy, paths.run_id, checkpoint)
