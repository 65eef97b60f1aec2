"""The recipe schema: every setting of a run, one class per block, and the keys that a recipe file can have."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializeAsAny,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from gymlab.alerts.custom import CustomRule, parse_rules
from gymlab.alerts.registry import check_off
from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.clock import Count, Number, StepClock, parse_number
from gymlab.core.errors import UserError, suggestion
from gymlab.core.format import format_count
from gymlab.core.settings import ReadWhen, Settings
from gymlab.core.types import Json
from gymlab.envs.settings import EnvSettings, PartLike
from gymlab.networks.settings import PolicySettings
from gymlab.recipes.problems import Problems
from gymlab.recipes.yaml_source import read_file

EngineName = Literal["auto", "gymnasium", "jax", "ale", "envpool"]
_MOST_STEPS = 10**15
_LARGEST_ROLLOUT = 10**8


class Steps(Settings):
    """A number of steps on a named clock: `1M env_steps`."""

    count: Annotated[int, Field(ge=1)]
    clock: StepClock = "env_steps"

    def __str__(self) -> str:
        text = format_count(self.count, brief=True)
        return f"{text if parse_number(text) == self.count else self.count} {self.clock}"


class Share(Settings):
    """A share of the budget: `10%`."""

    share: Annotated[float, Field(gt=0, le=1)]

    def __str__(self) -> str:
        return f"{(Decimal(repr(self.share)) * 100).normalize():f}%"  # exact: it is read back to the same share


def _parse_steps(raw: Json | Steps | Share) -> Steps | Share:
    if isinstance(raw, Steps | Share):
        return raw
    if isinstance(raw, dict) and len(raw) == 1:  # {vec_steps: 10k}
        ((clock, count),) = raw.items()
        text = f"{count} {clock}"
    else:
        text = str(raw)
    number, clock = _split_clock(text)
    value = parse_number(number)
    if isinstance(raw, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected a number of steps such as 100k, '1M env_steps' or '10k vec_steps', got {raw!r}")
    if clock not in ("", "env_steps", "vec_steps"):
        raise ValueError(f"unknown clock '{clock}' in {raw!r}: {suggestion(clock, ('env_steps', 'vec_steps'))}")
    if number.endswith("%"):
        if clock or not 0 < value <= 1:
            raise ValueError(f"a share of the budget lies above 0% and up to 100% and has no clock, got {raw!r}")
        return Share(share=value)
    if not 1 <= value <= _MOST_STEPS or value != int(value):
        raise ValueError(f"expected a whole number of steps, at least 1, got {raw!r}")
    return Steps(count=int(value), clock="vec_steps" if clock == "vec_steps" else "env_steps")


def _split_clock(text: str) -> tuple[str, str]:
    """`1M env_steps` and `1Menv_steps` as (1M, env_steps)."""
    text = " ".join(text.split())
    for clock in ("env_steps", "vec_steps"):
        if text.endswith(clock):
            return text.removesuffix(clock).strip(), clock
    number, _, clock = text.partition(" ")
    return number, clock


def _parse_budget(raw: Json | Steps | Share) -> Steps:
    steps = _parse_steps(raw)
    if isinstance(steps, Share):
        raise ValueError(f"a budget is a number of steps such as '1M env_steps', got {raw!r}")
    return steps


_STEPS_SCHEMA = WithJsonSchema(
    {
        "description": "a number of steps and its clock (1M env_steps), or where that makes sense a share (10%)",
        "anyOf": [{"type": "number"}, {"type": "string"}, {"type": "object"}],
    }
)
_N_STEPS_SCHEMA = WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]})  # 1k, auto, auto_reward_gap
Budget = Annotated[Steps, BeforeValidator(_parse_budget), PlainSerializer(str), _STEPS_SCHEMA]
Cadence = Annotated[Steps | Share, BeforeValidator(_parse_steps), PlainSerializer(str), _STEPS_SCHEMA]


class NormalizeSettings(Settings):
    """Running statistics, frozen during a rollout and in evaluation."""

    obs: Annotated[bool, ReadWhen("float observations")] = False
    """Centre and scale observations."""
    reward: bool = False
    """Scale rewards by the running std of the discounted return."""
    clip: Annotated[Number, Field(gt=0), ReadWhen("normalization")] = 10.0
    """Bound on normalised values."""


class EvalSettings(Settings):
    """When and how much to evaluate. Periodic evaluations of a compiled env are compiled, all others on Gymnasium."""

    every: Cadence = Share(share=0.1)
    """Cadence: a number of steps or a share of the budget."""
    warmup: Cadence | None = None
    """No evaluation before this."""
    episodes: Annotated[Count, Field(ge=1)] = 20
    """Episodes of each periodic evaluation, shared out evenly among the evaluation envs."""
    steps: Annotated[Count, Field(ge=1)] | None = None
    """Evaluate by this many env steps per env instead of by episodes."""
    final_episodes: Literal["auto"] | Annotated[Count, Field(ge=1)] = "auto"
    """Episodes of the confirming and of the final evaluation. auto: 100, but for a final one as many as surely take no
    more env steps than the training, and `episodes` at least."""
    max_envs: Annotated[Count, Field(ge=1)] = 100
    """At most this many evaluation envs side by side."""
    seed: Annotated[Count, Field(ge=0)] = 0
    """Evaluation episodes are seeded from this, disjoint from all training seeds."""
    mode: Literal["auto", "sync", "async"] = "auto"
    """sync: training waits for each evaluation. async: a process of its own evaluates a checkpoint while training goes
    on, and the result takes effect at the next evaluation. auto: async from a budget of 500k env_steps."""
    start_at: Annotated[Number, Field(gt=0, le=1)] | None = None
    """No periodic evaluation until the mean training return is this share of the way to the goal."""


class StopSettings(Settings):
    """What ends a run before its budget."""

    eval_return: Number | None = None
    """Stop once a fresh evaluation confirms this mean return; default: env.solved_at."""
    train_return: Number | None = None
    """Stop once the mean of a full window of training episodes reaches this."""
    solved_by: Literal["greedy", "sampled", "both"] = "greedy"
    """Which evaluation counts."""
    confirm: bool = True
    """Have a fresh, larger evaluation confirm eval_return; false stops at the first that reaches it, as SB3 does."""
    plateau: Annotated[Count, Field(ge=1)] | None = None
    """Stop after this many periodic evaluations in a row without a better one."""
    plateau_delta: Annotated[Number, Field(ge=0)] = 0.0
    """How much better an evaluation must be to count as better."""
    seconds: Annotated[Number, Field(gt=0)] | None = None
    """Stop after this much training time, over all sessions of the run. Not reproducible, as time is not."""


class CheckpointSettings(Settings):
    """Checkpoints are also written at the best evaluation and at the end."""

    every: Cadence = Share(share=0.05)
    """Cadence of periodic checkpoints."""
    keep: Annotated[Count, Field(ge=1)] = 3
    """Periodic checkpoints kept, beside best and last."""


class VideoSettings(Settings):
    """Which policies are filmed, in the background, on the real env. Nothing here changes what is learnt."""

    clips: tuple[Literal["first", "best", "final", "evaluation"], ...] = ("first", "best", "final")
    """When to film; [] for never. With the extra `video`, and where the env can be drawn. `evaluation` films every
    one, also where that takes longer than training."""
    clip_steps: Annotated[Count, Field(ge=1)] = 1000
    """An episode is not filmed any longer than this."""
    fps: Annotated[Count, Field(ge=1)] = 30
    """Frames per second at most: of faster envs only every second or third step is recorded."""
    sampled: bool = False
    """Film sampled actions instead of greedy ones."""


class MetricsSettings(Settings):
    """What is measured of training, and how often. Nothing here changes what is learnt."""

    statistics: Literal["full", "basic"] = "full"
    """basic leaves out norms by part, statistics of rewards, actions and observations, and all distributions."""
    distributions_every: Annotated[Count, Field(ge=1)] = 10
    """Updates between two measurements of quantiles, histograms, dead units and features; evaluations measure too."""
    rows_every: Literal["auto"] | Annotated[Count, Field(ge=1)] = "auto"
    """Updates one stored row stands for; auto: 1 until that would be more than 20k rows."""


def _parse_rules(raw: Json) -> tuple[CustomRule, ...]:
    """A list of rules, or the path of a YAML file with one. A run's recipe contains the rules themselves."""
    if not isinstance(raw, str):
        return parse_rules(raw)
    problems = Problems()
    try:
        rules = read_file(Path(raw), problems).to_data()
        problems.raise_any()
    except UserError as error:
        raise ValueError(str(error)) from None
    return parse_rules(rules["rules"] if isinstance(rules, dict) and set(rules) == {"rules"} else rules)


_RULES_SCHEMA = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]})
_WRITTEN = PlainSerializer(lambda rules: [dict(rule.written) for rule in rules])


class AlertSettings(Settings):
    """Custom alert rules, and built-in alerts to turn off (see `gymlab explain` and the list of alerts)."""

    rules: Annotated[tuple[CustomRule, ...], PlainValidator(_parse_rules), _WRITTEN, _RULES_SCHEMA] = ()
    """Rules of your own, `{id, metric, above | below | nan, for, after, severity, advice, try}`, or ./file.yaml."""
    off: tuple[str, ...] = ()
    """Ids of alerts that are turned off for this run."""

    @field_validator("off")
    @classmethod
    def _check_off(cls, off: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        check_off(off, [rule.id for rule in info.data.get("rules", ())])
        return off


class AlgorithmChoice(Settings):
    """The algorithm block: its name (or reference) and its settings."""

    name: str
    settings: SerializeAsAny[AlgorithmSettings]


class Recipe(Settings):
    """One training run, fully decided but for its seed."""

    name: str
    """`ENV:VARIANT`, for display."""
    budget: Budget = Steps(count=100_000)
    """Training ends at the first update boundary at or after this."""
    n_envs: Annotated[Count, Field(ge=1)] = 8
    """Envs stepped side by side."""
    n_steps: Annotated[Count, Field(ge=1), _N_STEPS_SCHEMA] = 128
    """Steps of each env per update. auto_reward_gap: the mean steps between two rewards in random play, rounded up to a
    power of two; auto: also 2048 steps of all envs at least. The run's recipe holds the number."""
    engine: EngineName = "auto"
    """auto takes the compiled port where there is one and nothing in the recipe needs the host, and ale for pictures of
    Atari games. envpool is only taken when asked for."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where the maths runs."""
    vectorization: Literal["auto", "sync", "processes"] = "auto"
    """How host envs are stepped: in this process or in spawned ones."""
    workers: Annotated[Annotated[Count, Field(ge=1)] | None, ReadWhen("host engine")] = None
    """Env processes, or EnvPool's threads; default: one per core."""
    env: EnvSettings
    """The environment."""
    policy: PolicySettings = PolicySettings()
    """The networks."""
    normalize: NormalizeSettings = NormalizeSettings()
    """Running normalisation of observations and rewards."""
    algorithm: AlgorithmChoice
    """In a file this block is called by its algorithm's name."""
    stop: StopSettings = StopSettings()
    """What ends the run before its budget."""
    on_nan: Literal["stop", "skip"] = "stop"
    """After an update with non-finite numbers (NaN, infinity): stop the run, or skip the update and continue."""
    eval: EvalSettings = EvalSettings()
    """Evaluation on the real Gymnasium env."""
    checkpoints: CheckpointSettings = CheckpointSettings()
    """When checkpoints are written."""
    video: VideoSettings = VideoSettings()
    """Which episodes are recorded as videos."""
    metrics: MetricsSettings = MetricsSettings()
    """Which metrics are recorded, and how often."""
    alerts: AlertSettings = AlertSettings()
    """Custom alert rules, and alerts to turn off."""
    features: tuple[PartLike, ...] = ()
    """Further features, by reference."""
    imports: tuple[str, ...] = ()
    """Modules imported before the env is made."""

    @model_validator(mode="after")
    def _check_rollout(self) -> Recipe:
        check_rollout(self.algorithm.settings, self.n_envs, self.n_steps)
        return self

    @property
    def budget_env_steps(self) -> int:
        """The budget in env_steps, whichever clock it is written in."""
        return self.budget.count * (self.n_envs if self.budget.clock == "vec_steps" else 1)


NOT_IN_FILES = ("name", "algorithm")  # fields of Recipe that a file expresses otherwise
FIELDS = tuple(field for field in Recipe.model_fields if field not in NOT_IN_FILES)
BLOCKS: dict[str, type[Settings]] = {
    name: field.annotation
    for name, field in Recipe.model_fields.items()
    if name not in NOT_IN_FILES and isinstance(field.annotation, type) and issubclass(field.annotation, Settings)
}
BLOCKS.pop("budget")  # a number of steps, written as one value
VARIANT_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*")
NOT_INHERITED = ("extends", "name")


def algorithm_names() -> tuple[str, ...]:
    """The algorithms that ship."""
    from gymlab.algorithms.registry import ALGORITHMS

    return tuple(ALGORITHMS)


def is_algorithm_key(key: object) -> bool:
    """Whether a key of a variant names an algorithm: one that ships, or `module:Class`."""
    return isinstance(key, str) and (":" in key or (key not in FIELDS and key in algorithm_names()))


def check_rollout(settings: AlgorithmSettings, n_envs: int, n_steps: int) -> None:
    """Raise ValueError where a rollout of n_envs x n_steps is impossible for the algorithm, or for any machine."""
    if n_envs * n_steps > _LARGEST_ROLLOUT:
        raise ValueError(
            f"n_steps={n_steps} x {n_envs} envs is more than the "
            f"{format_count(_LARGEST_ROLLOUT, brief=True)} steps a rollout can hold"
        )
    settings.check_rollout(n_envs, n_steps)
