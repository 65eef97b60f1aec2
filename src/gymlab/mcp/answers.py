"""What tools answer: small, typed, and the same in text and in structured content."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class Failure(Answer):
    """input: the call is wrong · run: the run or env failed · busy: ask again · timeout: ask for less · internal."""

    kind: Literal["input", "run", "busy", "timeout", "internal"]
    message: str


class Env(Answer):
    id: str
    max_episode_steps: int | None = None
    solved_at: float | None = None
    needs: str | None = None  # the extra to install


class Envs(Answer):
    envs: list[Env]
    total: int
    next_offset: int | None = None


class RecipeName(Answer):
    recipe: str
    source: str  # packaged or the file


class Recipes(Answer):
    recipes: list[RecipeName]
    total: int
    next_offset: int | None = None


class RecipeShown(Answer):
    recipe: str
    source: str | None
    settings: dict[str, Any]  # by full key
    notes: list[str] = []


class Validity(Answer):
    valid: bool
    problems: list[str] = []
    notes: list[str] = []


class Meaning(Answer):
    name: str
    kind: str
    text: str
    facts: dict[str, str] = {}


class Meanings(Answer):
    found: list[Meaning]


class Started(Answer):
    run_id: str
    job: str
    state: str
    before: int | None = None  # jobs that wait before it


class Starts(Answer):
    runs: list[Started]
    next: str


class RunStatus(Answer):
    run_id: str
    status: str  # queued, starting, running, finished, stopped, crashed, failed or cancelled
    stop_reason: str | None = None
    progress: float | None = None  # share of the budget
    env_steps: int | None = None
    budget: int | None = None
    seconds: float | None = None
    return_mean: float | None = None  # of training, latest
    best_return: float | None = None  # of evaluations
    solved: bool | None = None
    solved_at: float | None = None
    alerts: list[str] = []  # ids of those active
    job: str | None = None
    before: int | None = None  # jobs that wait before it
    told: str | None = None


class Waited(Answer):
    reached: bool  # whether what was waited for came true
    why: str
    status: RunStatus


class Entry(Answer):
    run_id: str
    recipe: str | None = None
    seed: int | None = None
    status: str | None = None
    env_steps: int | None = None
    best_return: float | None = None
    solved: bool | None = None
    group: str | None = None
    tags: list[str] = []
    created: str | None = None


class Entries(Answer):
    runs: list[Entry]
    total: int
    next_offset: int | None = None


class RunShown(Answer):
    status: RunStatus
    recipe: str
    seed: int | None = None
    evaluation: dict[str, Any] | None = None
    score_auc: float | None = None
    steps_to_threshold: int | None = None
    changed: dict[str, Any]  # settings that are not the default
    metrics: dict[str, float]  # headlines of the last row
    checkpoints: dict[str, Any]
    next: str


class Compared(Answer):
    run_id: str
    recipe: str
    status: str | None = None
    solved: bool | None = None
    greedy: float | None = None
    sampled: float | None = None
    env_steps: int | None = None
    score_auc: float | None = None
    steps_to_threshold: int | None = None


class Comparison(Answer):
    runs: list[Compared]  # best first
    settings: dict[str, dict[str, Any]]  # those that differ, by run
    notes: list[str]
    chart: str | None = None


class Series(Answer):
    name: str
    unit: str
    x: list[float]
    y: list[float | None]
    first: float | None = None
    last: float | None = None
    lowest: float | None = None
    highest: float | None = None
    chart: str | None = None


class Metrics(Answer):
    run_id: str
    axis: str
    metrics: list[Series]
    available: list[str] | None = None  # where none was named


class AlertShown(Answer):
    id: str
    severity: str
    title: str
    evidence: str
    share: float  # of the updates judged
    active: bool
    since_env_steps: int
    advice: str
    overrides: dict[str, Any]


class Alerts(Answer):
    run_id: str
    alerts: list[AlertShown]


class Log(Answer):
    run_id: str
    lines: list[str]


class Evaluation(Answer):
    run_id: str
    checkpoint: str
    results: dict[str, dict[str, Any]]  # greedy, sampled: mean, std, n, intervals


class Episode(Answer):
    run_id: str
    checkpoint: str
    seed: int | None
    steps: int
    total_return: float
    actions: dict[str, int]  # how often each was taken
    rewards: dict[str, float]  # lowest, mean, highest
    columns: list[str]
    rows: list[list[str]]  # a few, evenly over the episode


class Frames(Answer):
    run_id: str
    checkpoint: str
    frames: int
    at: list[int]  # which pictures of the film these are
    size: list[int]


class Finding(Answer):
    id: str
    severity: str
    title: str
    evidence: str
    advice: str
    overrides: dict[str, Any] = {}
    explains: list[str] = []


class Diagnosis(Answer):
    run_id: str
    verdict: str
    solved: bool | None = None
    findings: list[Finding]
    remedy: dict[str, Any] | None = None  # finding and overrides to try first
    next: str


class Suggestion(Answer):
    run_id: str
    why: str
    recipe: str | None = None
    overrides: list[str] = []
    command: str


class Report(Answer):
    run_id: str
    markdown: str
    sections: list[str]  # what else can be asked for


class Event(Answer):
    time: str
    what: str
    run_id: str | None = None
    job: str | None = None


class Digest(Answer):
    since: str
    events: list[Event]  # newest first
    running: list[str]
    waiting: int
    summary: str


class JobShown(Answer):
    job: str
    state: str
    title: str
    run_id: str | None = None
    told: str | None = None


class QueueShown(Answer):
    jobs: list[JobShown]
    limit_jobs: int
    limit_steps: int | None
    runner: bool


class Removed(Answer):
    run_id: str
