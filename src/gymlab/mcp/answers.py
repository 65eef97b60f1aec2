"""Answers of the tools: small pydantic models, sent both as JSON text and as structured content."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class ToolAnswer(BaseModel):
    """Base of all answers and of their parts."""

    model_config = ConfigDict(frozen=True)


class ToolFailure(ToolAnswer):
    """input: the call is wrong · run: the run or env failed · busy: ask again · timeout: ask for less · internal."""

    kind: Literal["input", "run", "busy", "timeout", "internal"]
    message: str


class EnvEntry(ToolAnswer):
    id: str
    max_episode_steps: int | None = None
    solved_at: float | None = None
    needs: str | None = None  # the extra to install


class EnvsAnswer(ToolAnswer):
    envs: list[EnvEntry]
    total: int
    next_offset: int | None = None


class RecipeEntry(ToolAnswer):
    recipe: str
    source: str  # packaged or the file


class RecipesAnswer(ToolAnswer):
    recipes: list[RecipeEntry]
    total: int
    next_offset: int | None = None


class RecipeAnswer(ToolAnswer):
    recipe: str
    source: str | None
    settings: dict[str, Any]  # by full key
    notes: list[str] = []


class ValidityAnswer(ToolAnswer):
    valid: bool
    problems: list[str] = []
    notes: list[str] = []


class MeaningEntry(ToolAnswer):
    name: str
    kind: str
    text: str
    facts: dict[str, str] = {}


class MeaningsAnswer(ToolAnswer):
    found: list[MeaningEntry]


class StartedRun(ToolAnswer):
    run_id: str
    job: str
    state: str
    before: int | None = None  # jobs that wait before it


class StartAnswer(ToolAnswer):
    runs: list[StartedRun]
    next: str


class StatusAnswer(ToolAnswer):
    run_id: str
    status: str  # queued, starting, running, finished, stopped, crashed, failed or cancelled
    stop_reason: str | None = None
    progress: float | None = None  # share of the budget
    env_steps: int | None = None
    budget: int | None = None
    seconds: float | None = None
    return_mean: float | None = None  # of training, latest
    score: float | None = None  # final evaluation, on fresh episodes
    peak: float | None = None  # best periodic evaluation so far: not a result
    solved: bool | None = None
    solved_at: float | None = None
    alerts: list[str] = []  # ids of those active
    job: str | None = None
    before: int | None = None  # jobs that wait before it
    message: str | None = None  # of the queue, e.g. why the job failed


class WaitAnswer(ToolAnswer):
    reached: bool  # whether the condition became true
    why: str
    status: StatusAnswer


class RunEntry(ToolAnswer):
    run_id: str
    recipe: str | None = None
    seed: int | None = None
    status: str | None = None
    env_steps: int | None = None
    score: float | None = None
    solved: bool | None = None
    group: str | None = None
    tags: list[str] = []
    created: str | None = None


class RunsAnswer(ToolAnswer):
    runs: list[RunEntry]
    total: int
    next_offset: int | None = None


class RunAnswer(ToolAnswer):
    status: StatusAnswer
    recipe: str
    seed: int | None = None
    evaluation: dict[str, Any] | None = None
    score_auc: float | None = None
    steps_to_threshold: int | None = None
    changed: dict[str, Any]  # settings that are not the default
    metrics: dict[str, float]  # headlines of the last row
    checkpoints: dict[str, Any]
    next: str


class ComparedRun(ToolAnswer):
    run_id: str
    recipe: str
    status: str | None = None
    solved: bool | None = None
    greedy: float | None = None
    sampled: float | None = None
    env_steps: int | None = None
    score_auc: float | None = None
    steps_to_threshold: int | None = None


class ComparisonAnswer(ToolAnswer):
    runs: list[ComparedRun]  # best first
    settings: dict[str, dict[str, Any]]  # those that differ, by run
    notes: list[str]
    chart: str | None = None


class MetricSeries(ToolAnswer):
    name: str
    unit: str
    x: list[float]
    y: list[float | None]
    first: float | None = None
    last: float | None = None
    lowest: float | None = None
    highest: float | None = None
    chart: str | None = None


class MetricsAnswer(ToolAnswer):
    run_id: str
    axis: str
    metrics: list[MetricSeries]
    available: list[str] | None = None  # names to choose from, if the call named none


class AlertEntry(ToolAnswer):
    id: str
    severity: str
    title: str
    evidence: str
    share: float  # of the judged updates
    active: bool
    since_env_steps: int
    advice: str
    overrides: dict[str, Any]


class AlertsAnswer(ToolAnswer):
    run_id: str
    alerts: list[AlertEntry]


class LogAnswer(ToolAnswer):
    run_id: str
    lines: list[str]


class EvaluationAnswer(ToolAnswer):
    run_id: str
    checkpoint: str
    results: dict[str, dict[str, Any]]  # greedy, sampled: mean, std, n, intervals


class EpisodeAnswer(ToolAnswer):
    run_id: str
    checkpoint: str
    seed: int | None
    steps: int
    total_return: float
    actions: dict[str, int]  # how often each was taken
    rewards: dict[str, float]  # lowest, mean, highest
    columns: list[str]
    rows: list[list[str]]  # a few, evenly over the episode


class FramesAnswer(ToolAnswer):
    run_id: str
    checkpoint: str
    frames: int
    at: list[int]  # indices of these frames in the film
    size: list[int]


class FindingEntry(ToolAnswer):
    id: str
    severity: str
    title: str
    evidence: str
    advice: str
    overrides: dict[str, Any] = {}
    explains: list[str] = []


class DiagnosisAnswer(ToolAnswer):
    run_id: str
    verdict: str
    solved: bool | None = None
    findings: list[FindingEntry]
    remedy: dict[str, Any] | None = None  # finding and overrides to try first
    next: str


class SuggestionAnswer(ToolAnswer):
    run_id: str
    why: str
    recipe: str | None = None
    overrides: list[str] = []
    command: str


class ReportAnswer(ToolAnswer):
    run_id: str
    markdown: str
    sections: list[str]  # further headings


class DigestEvent(ToolAnswer):
    time: str
    what: str
    run_id: str | None = None
    job: str | None = None


class DigestAnswer(ToolAnswer):
    since: str
    events: list[DigestEvent]  # newest first
    running: list[str]
    waiting: int
    summary: str


class JobEntry(ToolAnswer):
    job: str
    state: str
    title: str
    run_id: str | None = None
    message: str | None = None  # of the queue, e.g. why the job failed


class QueueAnswer(ToolAnswer):
    jobs: list[JobEntry]
    limit_jobs: int
    limit_steps: int | None
    runner: bool


class RemovalAnswer(ToolAnswer):
    run_id: str


class SweepStartAnswer(ToolAnswer):
    job: str
    name: str
    state: str
    next: str


class SweepAnswer(ToolAnswer):
    name: str
    status: str  # waiting, running, interrupted or finished
    recipe: str | None = None
    method: str | None = None
    counts: dict[str, int] = Field(default_factory=dict)  # trials by state
    best: dict[str, Any] | None = None  # trial, value, interval, overrides, runs
    trials: list[dict[str, Any]] | None = None  # best first
    message: str | None = None  # of the queue, e.g. why the job failed
