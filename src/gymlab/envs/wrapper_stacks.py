"""Wrapper stacks between env and policy, in training and in evaluation.

Evaluation leaves out the wrappers that declare themselves `training_only`, such as noise; the rest must be equal.
"""

from __future__ import annotations

from typing import NamedTuple

from gymlab.core.errors import RunError
from gymlab.core.types import Space, Spaces
from gymlab.envs.gymnasium_types import Env
from gymlab.envs.make import env_stack, make_env, split_wrappers
from gymlab.envs.settings import EnvSettings, Part
from gymlab.envs.transform import transformed
from gymlab.envs.wrappers import WRAPPERS, arguments, is_transform, load_wrapper
from gymlab.envs.wrappers.drop_keys import HideUnsupported


class WrapperStacks(NamedTuple):
    """Innermost first: the env, its wrappers, and the transforms of all envs' steps."""

    training: list[str]
    evaluation: list[str]
    left_out: list[str]  # by evaluation, as declared
    observation: Space  #  the evaluation env's spaces, before any transform
    action: Space
    hidden: str  #  a message that names what of the observation is not shown to the policy; "" where all is
    reordered: str  #  a message that names the order in which the wrappers run; "" where it is the written one

    @property
    def notes(self) -> list[str]:
        """Messages for the user."""
        left_out = f"evaluation leaves out {', '.join(self.left_out)}" if self.left_out else ""
        return [note for note in (self.reordered, self.hidden, left_out) if note]


def evaluation_settings(settings: EnvSettings) -> EnvSettings:
    """The env settings of evaluation: without the wrappers that are for training only."""
    parts = tuple(part for part in settings.wrappers if not _training_only(part))
    return settings if len(parts) == len(settings.wrappers) else settings.model_copy(update={"wrappers": parts})


def wrapper_stacks(settings: EnvSettings) -> WrapperStacks:
    """Both stacks; RunError where they differ in more than what the wrappers declare."""
    evaluated = evaluation_settings(settings)
    env = make_env(evaluated)
    observation = env.observation_space
    action = env.action_space
    hidden = env.note if isinstance(env, HideUnsupported) else ""
    layers = _layers(env)
    evaluation = layers + _transforms(evaluated)
    if split_wrappers(settings)[0] != split_wrappers(evaluated)[0]:
        layers = _layers(make_env(settings))
    training = layers + _transforms(settings)
    left_out = [_format(part) for part in settings.wrappers if _training_only(part)]
    if len(training) - len(left_out) != len(evaluation) or any(line not in training for line in evaluation):
        raise RunError(
            f"training and evaluation see different envs: {' > '.join(training)} against "
            f"{' > '.join(evaluation)}; to be left out: {', '.join(left_out) or 'nothing'}"
        )
    return WrapperStacks(training, evaluation, left_out, observation, action, hidden, _reordered(settings))


def check_alike(stacks: WrapperStacks, settings: EnvSettings, inner: Spaces, trained: Spaces) -> None:
    """RunError unless the policy has the spaces in evaluation that it is trained on (`trained`)."""
    _, transforms = split_wrappers(evaluation_settings(settings))
    evaluated = transformed(inner._replace(observation=stacks.observation, action=stacks.action), transforms)
    for name in ("observation", "action", "masked"):
        mine = getattr(trained, name)
        theirs = getattr(evaluated, name)
        if mine != theirs:
            raise RunError(f"training and evaluation see different envs: {name} is {mine} against {theirs}")


def leaves_bounds(settings: EnvSettings) -> bool:
    """Whether observations may lie outside their space, as a wrapper declares with `leaves_bounds = True`."""
    return any(getattr(load_wrapper(part.name), "leaves_bounds", False) for part in settings.wrappers)


def keeps_returns(settings: EnvSettings) -> bool:
    """Whether returns stay within what is known of the env.

    True of gymlab's wrappers that do not declare `keeps_returns = False`; one of the user's must declare it.
    """
    return all(getattr(load_wrapper(part.name), "keeps_returns", part.name in WRAPPERS) for part in settings.wrappers)


def _training_only(part: Part) -> bool:
    wrapper = load_wrapper(part.name)
    return getattr(wrapper, "training_only", False) and not arguments(part, wrapper).get("in_evaluation", False)


def _reordered(settings: EnvSettings) -> str:
    """The note on a wrapper order that differs from the written one."""
    around_envs = [part for part in settings.wrappers if not is_transform(load_wrapper(part.name))]
    order = around_envs + [part for part in settings.wrappers if is_transform(load_wrapper(part.name))]
    if order == list(settings.wrappers):
        return ""
    count = len(around_envs)
    return (
        f"env.wrappers run in another order than written, innermost first: {', '.join(part.name for part in order)}: "
        f"gymnasium wrappers ({', '.join(part.name for part in order[:count])}) go around each env, inside transforms "
        f"({', '.join(part.name for part in order[count:])}), which act on the steps of all envs"
    )


def _layers(env: Env) -> list[str]:
    try:
        return env_stack(env)
    finally:
        env.close()


def _transforms(settings: EnvSettings) -> list[str]:
    return [_format(part) for part in settings.wrappers if is_transform(load_wrapper(part.name))]


def _format(part: Part) -> str:
    options = arguments(part, load_wrapper(part.name))
    return f"{part.name}({', '.join(f'{key}={value!r}' for key, value in options.items())})"
