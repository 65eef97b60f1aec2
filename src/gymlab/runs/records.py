"""Records: the JSON objects of a run folder as gymlab writes them; a key may be missing in a damaged file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from gymlab.core.types import Json, JsonObject

if TYPE_CHECKING:
    from gymlab.core.clock import ClockRecord

Status = Literal["running", "finished", "stopped", "crashed", "failed"]


class SummaryRecord(TypedDict, total=False):
    """What a run has achieved."""

    score: float | None  # of the final evaluation
    peak: float | None  # the best periodic evaluation
    solved: bool | None
    eval: JsonObject  # the newest evaluation: greedy and sampled
    eval_source: str  # what it was played on
    auc: float | None
    steps_to_threshold: int | None


class StatusRecord(TypedDict, total=False):
    """`status.json`."""

    status: Status
    stop_reason: str | None
    started: str
    ended: str | None
    heartbeat: str
    beats: int
    sessions: int
    pid: int
    host: str
    clock: ClockRecord
    summary: SummaryRecord
    filming: int  # how many films a recorder process still makes of a run that has ended


class ResultRecord(TypedDict, total=False):
    """The outcome of a session: what `gymlab train --json` prints."""

    run_id: str
    run_dir: str
    status: str
    stop_reason: str
    env_steps: int
    vec_steps: int
    updates: int
    seconds: float
    solved: bool | None
    eval: dict[str, dict[str, float]] | None
    eval_source: str | None
    checkpoint: str | None
    exit_code: int  # where an executor passes it on


class StepRecord(TypedDict):
    """A `Step` as JSON."""

    updates: int
    vec_steps: int
    env_steps: int


class AlertRecord(TypedDict):
    """An `Alert` as JSON."""

    id: str
    severity: str
    title: str
    metric: str
    evidence: str
    numbers: dict[str, float]
    count: int
    judged: int
    first: StepRecord
    last: StepRecord
    active: bool
    advice: str
    overrides: dict[str, Json]
    share: float


class AlertsFile(TypedDict):
    """`alerts.json`."""

    format: int
    alerts: list[AlertRecord]


class GitState(TypedDict):
    """The commit of the folder a run was started in."""

    commit: str
    dirty: bool | None


class ManifestEnv(TypedDict, total=False):
    """The env of a run: its id, the wrapper stacks and its settings."""

    id: str


class ManifestRecord(TypedDict, total=False):
    """`manifest.json`: `build_manifest` writes the upper part, a session adds the lower one."""

    run_id: str
    format: int
    created: str
    recipe: str
    seed: int
    env: ManifestEnv
    engine: JsonObject
    references: dict[str, str]
    versions: dict[str, str]
    git: GitState | None
    platform: JsonObject
    fingerprint: JsonObject
    command: list[str]
    checkpoint_clock: str  # that names the checkpoints' folders

    algorithm: str
    solved_at: float
    solved_at_source: str
    tags: list[str]
    group: str
    note: str
    notes: list[str]
    full_budget: bool
    forked_from: str
    registered: str
    changes: list[list[str]]
    sessions: list[JsonObject]  # one for each time it was resumed


class RegistryEntry(TypedDict, total=False):
    """A run in `registry.json`."""

    id: str
    name: str | None
    env: str | None
    algorithm: str | None
    seed: int | None
    created: str | None
    status: Status
    stop_reason: str | None
    updates: int | None
    vec_steps: int | None
    env_steps: int | None
    episodes: int | None
    seconds: float | None
    gradient_steps: int | None
    score: float | None
    solved: bool | None
    group: str | None
    note: str | None
    tags: list[str]


class CheckpointIndex(TypedDict):
    """`index.json` of the checkpoints: names of folders."""

    last: str | None
    best: str | None
    periodic: list[str]


class TensorFile(TypedDict):
    """One of a checkpoint's two tensor files."""

    sha256: str
    bytes: int


class CheckpointInfo(TypedDict, total=False):
    """What a checkpoint says about its run."""

    recipe: str
    seed: int
    clock: ClockRecord
    features: dict[str, dict[str, Any]]  # what each feature saved and will restore, by its name
    stateful: list[str]
    horizon: str
    fingerprint: JsonObject
    metrics: dict[str, float]


class Sidecar(TypedDict):
    """`checkpoint.json`, without the hash of itself."""

    format: int
    step: int
    kinds: list[str]
    info: CheckpointInfo
    files: dict[str, TensorFile]


class PauseState(TypedDict, total=False):
    """`pause.json`."""

    paused: bool
    updates: int


class OwnerRecord(TypedDict, total=False):
    """The process in a run's lock file."""

    pid: int
    host: str
    start: str | None  # distinguishes it from a later process with the same pid


class MemberRecord(TypedDict):
    """A `Member` of a group."""

    run_id: str
    seed: int
    overrides: list[str]


class GroupRecord(TypedDict):
    """A `Group`."""

    name: str
    title: str
    recipe: str
    how: str
    members: list[MemberRecord]
    full_budget: bool
    tags: list[str]
    note: str | None
    solved_at_source: str | None
    init_from: str | None


class PendingRecord(TypedDict):
    """Beside a policy that is to be filmed."""

    clock: ClockRecord
    kinds: list[str]


# Beside a film; `return` is no name for an attribute.
VideoRecord = TypedDict(
    "VideoRecord",
    {
        "format": int,
        "run_id": str,
        "recipe": str,
        "checkpoint": str,
        "kinds": list[str],
        "env_steps": int,
        "vec_steps": int,
        "updates": int,
        "seed": int,
        "episode_seed": int,
        "policy": str,
        "table": str,
        "labels": list[str],
        "return": float,
        "length": int,
        "ended": str,
        "frames": int,
        "fps": float,
        "stride": int,
        "size": list[int],
        "picture": list[int],
    },
    total=False,
)
