"""The parts of a report, each a pure function of a run's facts: text for people and data for programs."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypedDict

from gymlab.core.format import format_count, format_duration, format_episodes
from gymlab.core.types import Json, JsonObject
from gymlab.metrics.catalogue import headlines, metric, written
from gymlab.reports.run_facts import PHASES, Facts
from gymlab.runs.metrics_reader import Curve
from gymlab.runs.records import AlertRecord
from gymlab.runs.status import read_record
from gymlab.terminal.plots import PlotFrame, PlotLine, plot, sparkline

LABELS = ("env.actions", "env.observations", "env.links")  # names for people, without effect on the run
_JSON_POINTS = 100
_ALERT_FIELDS = ("id", "severity", "title", "evidence", "advice")


class Section(NamedTuple):
    """`lines` are Markdown below the heading; `data` stands under `key` in report.json."""

    key: str
    title: str
    lines: list[str]
    data: object


def result(facts: Facts) -> Section:
    """Status, solved or not, the final evaluation, steps and time."""
    data = result_data(facts)
    rows = [(name.replace("_", " "), text) for name, text in result_rows(facts).items()]
    return Section("result", "Result", table(("what", "value"), rows), data)


class ResultData(TypedDict):
    """The result of a run."""

    status: str | None
    stop_reason: str | None
    solved: bool | None
    solved_at: float | None
    solved_by: str
    eval: JsonObject | None
    score: float | None
    peak: float | None
    eval_source: str | None
    vec_steps: float | None
    env_steps: float | None
    updates: float | None
    gradient_steps: float | None
    over_budget: int | None
    seconds: float | None
    episodes: float | None


class CurveData(TypedDict):
    """A curve, thinned."""

    axis: str
    unit: str
    x: list[float]
    y: list[float]
    not_finite: int


def result_data(facts: Facts) -> ResultData:
    """The result as plain values."""
    evaluated = facts.summary.get("eval")
    return {
        "status": facts.status.get("status"),
        "stop_reason": facts.status.get("stop_reason"),
        "solved": facts.summary.get("solved"),
        "solved_at": facts.solved_at,
        "solved_by": facts.solved_by,
        "eval": evaluated if isinstance(evaluated, dict) else None,
        "score": facts.summary.get("score"),
        "peak": facts.summary.get("peak"),
        "eval_source": facts.summary.get("eval_source"),
        "vec_steps": facts.clock.get("vec_steps"),
        "env_steps": facts.clock.get("env_steps"),
        "updates": facts.clock.get("updates"),
        "gradient_steps": facts.clock.get("gradient_steps"),
        "over_budget": facts.over_budget,
        "seconds": facts.clock.get("seconds"),
        "episodes": facts.clock.get("episodes"),
    }


def result_rows(facts: Facts) -> dict[str, str]:
    """The result in words, by what it is."""
    data = result_data(facts)
    verdict = yes_or_no(data["solved"], "not known")
    ways = {"both": "greedy and sampled"}.get(facts.solved_by, facts.solved_by)
    goal = "no threshold is known" if facts.solved_at is None else f"{ways} return of {facts.solved_at:g}"
    rows = {
        "status": f"{printable(data['status'])}, stop_reason: {printable(data['stop_reason'])}",
        "solved": f"{verdict} ({goal})",
        **{mode: _evaluation(part, data["eval_source"]) for mode, part in (data["eval"] or {}).items()},
        "score": _number(data["score"], "eval/greedy_mean"),
        "steps": " · ".join(
            f"{format_count(count)} {clock}"
            for clock in ("vec_steps", "env_steps", "updates", "gradient_steps", "episodes")
            if isinstance(count := facts.clock.get(clock), int | float)
        ),
        "budget": f"{printable(facts.settings.get('budget'))}, exceeded by {facts.over_budget} env_steps"
        if facts.over_budget
        else "",
        "time": format_duration(data["seconds"]) if isinstance(data["seconds"], int | float) else "",
    }
    return {printable(name): text for name, text in rows.items() if text}


def score(facts: Facts) -> Section:
    """The score to rank by, and the steps to the threshold."""
    rows = list(score_rows(facts).items())
    return Section("score", "Score", table(("what", "value"), rows), facts.score.as_json())


def score_rows(facts: Facts) -> dict[str, str]:
    """Both scores in words."""
    found = facts.score
    so_far = " so far" if found.partial else ""
    over = f"mean return over {format_count(found.horizon)} env_steps{so_far}"
    reached = (
        "not reached" if found.steps_to_threshold is None else f"{format_count(found.steps_to_threshold)} env_steps"
    )
    return {
        "score/auc": "no evaluation yet" if found.auc is None else f"{written('score/auc', found.auc)} ({over})",
        "score/steps_to_threshold": f"{reached} (threshold {found.threshold:g})"
        if found.threshold is not None
        else "no threshold is known",
    }


def alerts(facts: Facts) -> Section | None:
    """Alerts with their frequency, evidence and advice; None if no rule watched the run."""
    found = read_record(facts.paths.alerts).get("alerts")
    if not isinstance(found, list):
        return None
    valid = sorted((alert for alert in found if _is_valid_alert(alert)), key=lambda alert: str(alert["id"]))
    if not valid:
        return Section("alerts", "Alerts", ["None."], [])
    rows = [
        (
            f"`{printable(alert['id'])}`",
            printable(alert["severity"]),
            _alert_frequency(alert),
            _alert_period(alert),
            printable(alert["evidence"]),
        )
        for alert in valid
    ]
    lines = table(("alert", "severity", "failing updates", "first to last", "latest evidence"), rows)
    advice = [
        f"- `{printable(alert['id'])}`: {printable(alert['title'])}. {printable(alert['advice'])}" for alert in valid
    ]
    return Section("alerts", "Alerts", [*lines, "", *advice], valid)


def settings(facts: Facts, defaults: JsonObject) -> Section:
    """Settings that differ from their default, and those changed when the run was resumed."""
    changed = changed_settings(facts.settings, defaults)
    head = [(f"`{printable(key)}`", printable(value), printable(default)) for key, (value, default) in changed.items()]
    lines = table(("key", "value", "default"), head) if head else ["Every setting has its default value."]
    lines += ["", "All other settings have their default; every value stands in `recipe.yaml`."]
    sessions = [record for record in _list(facts.manifest.get("sessions")) if isinstance(record, dict)]
    for record in sessions:
        changes = [change for change in _list(record.get("changes")) if isinstance(change, list) and len(change) == 3]
        changed_keys = "; ".join(f"{printable(key)}: {printable(old)} → {printable(new)}" for key, old, new in changes)
        lines.append(
            f"Resumed at {printable(record.get('resumed_at'))} env_steps"
            + (f", with {changed_keys}" if changed_keys else "")
            + "".join(f"; not exact: {printable(reason)}" for reason in _list(record.get("reasons")))
            + "."
        )
    data = {"changed": {key: {"value": v, "default": d} for key, (v, d) in changed.items()}, "sessions": sessions}
    return Section("settings", "Settings", lines, {**data, "all": dict(facts.settings)})


def changed_settings(values: JsonObject, defaults: JsonObject) -> dict[str, tuple[Json, Json]]:
    """Keys whose value is not the default, with both values. Keys without a known default, and labels, are left out."""
    known = {key: value for key, value in values.items() if key in defaults and key not in LABELS}
    return {key: (value, defaults[key]) for key, value in known.items() if defaults[key] != value}


def curves(facts: Facts) -> Section:
    """Returns as a plot, the other headline metrics as sparklines."""
    measured = facts.measured.curves
    lines = ["```text", *return_plot(facts), "```", "", "```text", *sparklines(facts), "```"]
    return Section("curves", "Curves", lines, {name: curve_data(curve) for name, curve in measured.items()})


def return_plot(facts: Facts, frame: PlotFrame | None = None) -> list[str]:
    """The return of training and of the evaluations that count in one plot."""
    found = [facts.measured.curves[name] for name in return_metrics(facts) if len(facts.measured.curves.get(name, ()))]
    frame = frame or PlotFrame(axis=found[0].axis if found else "vec_steps", threshold=facts.solved_at)
    return plot([PlotLine(curve.name, curve.x, curve.y) for curve in found], frame)


def return_metrics(facts: Facts) -> tuple[str, str]:
    """The metrics of the return: in training, and in the evaluations that count."""
    return "roll/return_mean", "eval/sampled_mean" if facts.solved_by == "sampled" else "eval/greedy_mean"


def sparklines(facts: Facts, width: int = 40) -> list[str]:
    """One line for each headline metric that changes: first and last value, sparkline and extremes."""
    rows: list[tuple[str, ...]] = []
    for name in headlines(facts.measured.curves):
        curve = facts.measured.curves[name]
        plotted = name in return_metrics(facts)
        if plotted or metric(name).monotonic or len(curve) < 2 or curve.low.min() == curve.high.max():
            continue
        ends = (written(name, float(curve.y[0])), written(name, curve.last))
        extremes = f"{written(name, float(curve.low.min()))} to {written(name, float(curve.high.max()))}"
        lost = f", {curve.not_finite} not finite" if curve.not_finite else ""
        rows.append((printable(name), ends[0], "→", ends[1], sparkline(curve.y, width), extremes + lost))
    return columns(rows, right=(1,)) if rows else ["(nothing else changed)"]


def curve_data(curve: Curve, points: int = _JSON_POINTS) -> CurveData:
    """A curve as JSON, at most so many points."""
    step = max(1, -(-len(curve) // points))
    places = sorted({*range(0, len(curve), step), *([len(curve) - 1] if len(curve) else [])})
    x = curve.x[places].tolist()
    y = [float(f"{value:.6g}") for value in curve.y[places]]
    return {"axis": curve.axis, "unit": metric(curve.name).unit, "x": x, "y": y, "not_finite": curve.not_finite}


def time(facts: Facts) -> Section:
    """Where the seconds went."""
    spent = phases(facts)
    total = sum(spent.values())
    rows = [(name, format_duration(seconds), f"{seconds / total:.0%}") for name, seconds in spent.items() if total > 0]
    lines = table(("phase", "time", "share"), rows) if rows else ["Nothing was timed."]
    compiling = facts.measured.totals.get("time/compile", 0.0)
    if compiling > 0:
        lines += [
            "",
            f"Compiling took {format_duration(compiling)} in all threads, within these phases and beside them.",
        ]
    sps = facts.measured.last.get("time/sps_mean")
    if sps is not None:
        lines += ["", f"{format_count(sps)} env_steps per second over the last session."]
    return Section("time", "Time", lines, {"seconds": spent, "compile_thread_seconds": compiling, "sps_mean": sps})


def phases(facts: Facts) -> dict[str, float]:
    """Seconds of the run's time by phase. The remainder is the training of compiled engines, otherwise `rest`.

    Compiling is in neither: its seconds are those of all threads.
    """
    timed = (name for name in PHASES if name != "time/compile")
    spent = {name.removeprefix("time/"): facts.measured.totals.get(name, 0.0) for name in timed}
    seconds = facts.clock.get("seconds")
    # The last evaluation and checkpoint come after the last update, where the clock has stopped.
    after = sum(facts.measured.last.get(f"time/{name}", 0.0) for name in ("evaluate", "checkpoint"))
    rest = float(seconds) + after - sum(spent.values()) if isinstance(seconds, int | float) else 0.0
    name = "rest" if spent["collect"] else "collect and update, compiled into one"
    return {key: value for key, value in {name: rest, **spent}.items() if value > 0}


def checkpoints(facts: Facts) -> Section:
    """The checkpoints that exist."""
    index = facts.checkpoints
    steps = ", ".join(map(str, sorted(index["steps"])))
    line = (
        f"best `{printable(index['best'])}`, last `{printable(index['last'])}` (at {index['clock']} {steps})"
        if steps
        else "none"
    )
    return Section("checkpoints", "Checkpoints", [line], dict(index))


def reproduction(facts: Facts) -> Section:
    """The command that repeats this run, and the versions it was made with."""
    command = rerun_command(facts)
    original = _original(facts)
    versions = facts.manifest.get("versions")
    made = ", ".join(f"{name} {version}" for name, version in versions.items()) if isinstance(versions, dict) else ""
    git = facts.manifest.get("git")
    lines = ["In this folder:", "", "```bash", printable(command), "```"]
    if original:
        lines += ["", f"It was started by `{printable(shlex.join(original)).replace('`', '')}`."]
    if made:
        commit = f", git {printable(git.get('commit'))[:12]}" if isinstance(git, dict) else ""
        lines += ["", f"Made with {printable(made)}{commit}."]
    return Section("reproduction", "Reproduction", lines, {"command": command, "original": original, "git": git})


def rerun_command(facts: Facts) -> str:
    """`gymlab train` on the run's own recipe, with the options that the recipe does not hold."""
    engine = facts.manifest.get("engine")
    words = ["gymlab", "train", "recipe.yaml", "--seed", str(facts.manifest.get("seed", 0))]
    if isinstance(engine, dict) and engine.get("engine"):
        words += ["--engine", str(engine["engine"]), "--device", str(engine.get("device", "auto"))]
    if facts.manifest.get("full_budget"):
        words.append("--full-budget")
    original = _original(facts)
    if "--init-from" in original[:-1]:
        words += ["--init-from", original[original.index("--init-from") + 1]]
    return shlex.join(words)


def _original(facts: Facts) -> list[str]:
    """The run's command line, without the path of the program."""
    command = facts.manifest.get("command")
    return ["gymlab", *map(str, command[1:])] if isinstance(command, list) and command else []


def next_command(facts: Facts) -> str:
    """The command that is most likely useful next."""
    status = facts.status.get("status")
    done = facts.clock.get("env_steps")
    if status == "running":
        return f"gymlab runs plot {facts.run_id}"
    if status in ("stopped", "crashed"):
        return f"gymlab resume {facts.run_id}"
    if status == "failed":
        return f"gymlab diagnose {facts.run_id}"
    if facts.summary.get("solved") is False and done is not None:
        return f"gymlab resume {facts.run_id} --budget {2 * int(done)}"
    return f"gymlab eval {facts.run_id}"


def printable(value: object) -> str:
    """A value as printable text, safe for terminals and tables: a run folder may come from strangers."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(printable, value))}]"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, ["---"] * len(head), *rows)
    ]


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows as aligned text; the columns in `right` are flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{c:>{w}}" if i in right else f"{c:<{w}}" for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def yes_or_no(value: object, otherwise: str) -> str:
    return "yes" if value is True else "no" if value is False else otherwise


def _list(value: object) -> list[Json]:
    return value if isinstance(value, list) else []


def _evaluation(part: Any, source: Any) -> str:
    try:
        episodes = format_episodes(int(part["n"]), str(source))
        text = f"{part['mean']:.2f} ± {part['std']:.2f} over {episodes}"
    except (KeyError, TypeError, ValueError):
        return ""
    with contextlib.suppress(KeyError, TypeError, ValueError):  # an older run's has no interval
        text += f", mean in [{part['low']:.2f}, {part['high']:.2f}] (95 %), IQM {part['iqm']:.2f}"
    return text


def _number(value: object, name: str) -> str:
    return written(name, float(value)) if isinstance(value, int | float) else ""


def _is_valid_alert(alert: Json) -> bool:
    return isinstance(alert, dict) and all(isinstance(alert.get(name), str) for name in _ALERT_FIELDS)


def _alert_frequency(alert: AlertRecord) -> str:
    count = alert.get("count")
    judged = alert.get("judged")
    if not isinstance(count, int) or not isinstance(judged, int) or judged < 1:
        return "-"
    return f"{count} of {judged} ({count / judged:.0%}){'' if alert.get('active') else ', cleared'}"


def _alert_period(alert: AlertRecord) -> str:
    steps = [alert[name].get("env_steps") if isinstance(alert.get(name), dict) else None for name in ("first", "last")]
    texts = [format_count(step) if isinstance(step, int | float) else "-" for step in steps]
    return f"{' to '.join(dict.fromkeys(texts))} env_steps"
