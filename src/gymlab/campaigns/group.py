"""Group of runs: trains its members with an executor, shows their progress, and sums up."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gymlab.campaigns.executors.protocol import (
    Executor,
    RunAlerted,
    RunBegan,
    RunFailed,
    RunFinished,
    RunNotBegun,
    RunProgressed,
    RunReport,
    RunScored,
    report_fields,
)
from gymlab.campaigns.run_spec import RunSpec
from gymlab.campaigns.summary import (
    GroupSummary,
    MemberResult,
    by_variation,
    estimate_seeds,
    format_group,
    member_scores,
    read_member,
    score_json,
    summarize,
)
from gymlab.core.errors import UserError
from gymlab.core.format import format_count
from gymlab.core.types import Json
from gymlab.envs.registry import registration_json
from gymlab.recipes.resolve import amend
from gymlab.recipes.schema import Recipe
from gymlab.recipes.secrets import dump_redacted_recipe
from gymlab.recipes.write import dump_recipe
from gymlab.runs.groups import Group, Member, read_group, write_group
from gymlab.runs.paths import RunPaths, new_run_id, run_paths
from gymlab.runs.status import read_status
from gymlab.session.compile_cache import compile_key
from gymlab.session.signals import watch_signals
from gymlab.terminal.progress_table import ProgressTable, RunRow, format_totals, run_lines, table_mode
from gymlab.terminal.screen import StyledLine

_SHORT_NAME = 24  # letters of a recipe's name in a group's: members' ids are longer still


@dataclass(frozen=True)
class GroupOptions:
    """Options of one session of a group, beside what the group itself holds."""

    command: tuple[str, ...] = ()
    wandb: str | None = None
    tensorboard: bool = False
    output: str = "people"
    notes: tuple[str, ...] = ()  # of the recipe, shown first
    overrides: tuple[str, ...] = ()  # this and the following: for members that are resumed
    budget: str | None = None
    full_budget: bool | None = None  # None: as it was begun
    reschedule: bool = False


@dataclass
class GroupOutcome:
    """How a session of a group ended."""

    group: Group
    results: list[MemberResult]
    summary: GroupSummary
    exit_code: int
    failures: dict[str, str] = field(default_factory=dict)  # run id -> message

    def lines(self) -> list[str]:
        failed = [f"{run_id}: {message}" for run_id, message in self.failures.items()]
        return [*failed, *format_group(self.group, self.results, self.summary)]

    def as_json(self) -> dict[str, Json]:
        members = [e.as_json() | {"error": self.failures.get(e.member.run_id)} for e in self.results]
        facts = {"group": self.group.name, "how": self.group.how, "members": members, **self.summary.as_json()}
        variations = by_variation(self.results)
        if len(variations) > 1:
            facts["variations"] = {
                label: score_json(estimate_seeds(member_scores(varied))) for label, varied in variations.items()
            }
        return facts


def make_group(
    recipe: Recipe, seeds: Sequence[int], variations: Sequence[tuple[str, ...]], *, name: str | None, how: str
) -> Group:
    """Every variation with every seed. Nothing is written yet."""
    name = name or new_run_id(recipe.name[:_SHORT_NAME])
    members = []
    for index, overrides in enumerate(variations or [()]):
        prefix = f"{name}-v{index}" if len(variations) > 1 else name
        members += [Member(f"{prefix}-s{seed}", seed, overrides) for seed in seeds]
    return Group(name, recipe.name, dump_redacted_recipe(recipe), how, tuple(members))


def new_specs(
    runs_root: Path, group: Group, members: Iterable[Member], recipe: Recipe, options: GroupOptions
) -> list[RunSpec]:
    """A spec per member that has not begun. All errors are raised before anything is made."""
    registered = registration_json(recipe.env.id)
    specs = []
    recipes = {overrides: amend(recipe, overrides) for overrides in {member.overrides for member in group.members}}
    if group.how == "vmap":
        check_alike(recipe, recipes)
    for member in members:
        if run_paths(runs_root, member.run_id).root.exists():
            raise UserError(f"run id '{member.run_id}' exists already: `gymlab resume {group.name}`, or --group NAME")
        specs.append(
            RunSpec(
                number=group.members.index(member),
                runs_root=str(runs_root),
                run_id=member.run_id,
                seed=member.seed,
                recipe=dump_recipe(recipes[member.overrides]),
                registered=registered,
                full_budget=group.full_budget if options.full_budget is None else options.full_budget,
                group=group.name,
                tags=group.tags,
                note=group.note,
                command=options.command,
                solved_at_source=group.solved_at_source,
                init_from=group.init_from,
                wandb=options.wandb,
                tensorboard=options.tensorboard,
            )
        )
    return specs


def check_alike(recipe: Recipe, variations: Mapping[tuple[str, ...], Recipe]) -> None:
    """UserError where one differs in more than the numbers that enter compiled code."""
    for overrides, varied in variations.items():
        if compile_key(varied) != compile_key(recipe):
            names = ", ".join(recipe.algorithm.settings.schedules())
            raise UserError(f"--vmap {', '.join(overrides)}: that is compiled in, and can differ only in {names}")


def resumed_specs(runs_root: Path, group: Group, members: Iterable[Member], options: GroupOptions) -> list[RunSpec]:
    """A spec per member that is resumed from its last checkpoint."""
    return [
        RunSpec(
            number=group.members.index(member),
            runs_root=str(runs_root),
            run_id=member.run_id,
            seed=member.seed,
            resume=True,
            overrides=options.overrides,
            budget=options.budget,
            full_budget=options.full_budget,
            reschedule=options.reschedule,
            command=options.command,
            wandb=options.wandb,
            tensorboard=options.tensorboard,
        )
        for member in members
    ]


def run_group(
    runs_root: Path, group: Group, specs: Iterable[RunSpec], executor: Executor, options: GroupOptions
) -> GroupOutcome:
    """Train the members, show their progress, and sum up."""
    progress = GroupProgress(runs_root, group, options.output, executor.description)
    for spec in specs:
        executor.submit(spec)
    with progress.table, watch_signals(executor.stop) as interrupts:
        progress.table.print(progress.title, "bold")
        for note in options.notes:
            progress.table.print(f"note: {note}", "dim")
        for report in executor.reports():
            if progress.add(report):
                executor.stop("refused")
    return progress.close(interrupts.received is not None, interrupts.exit_code)


class GroupProgress:
    """Progress of a group: a table row per member, and the group's file once its first member has begun."""

    def __init__(self, runs_root: Path, group: Group, output: str, how: str) -> None:
        self._root = runs_root
        self._group = group
        self._output = output
        count = len(group.members)
        title = f"{group.title} · {count} member{'s' * (count > 1)} · {how} · group {group.name}"
        self.title = title
        self._rows = [RunRow(member.label) for member in group.members]
        self.table = ProgressTable(sys.stdout, table_mode(output, sys.stdout), self._lines, self._progress)
        self._start = time.perf_counter()
        self._steps_before = sum(_steps(runs_root, member) for member in group.members)
        self._recorded = False
        self._failures: dict[str, str] = {}
        self._refusal: str | None = None
        self._codes: list[int] = []

    def add(self, report: RunReport) -> bool:
        """Show a report; True where the others need not begin: the first member was refused, and so will all be."""
        member = self._group.members[report.member]
        row = self._rows[report.member]
        if self._output == "jsonl":
            print(json.dumps({"run_id": member.run_id, **report_fields(report)}), flush=True)
        if isinstance(report, RunBegan):
            row.status = "running"
            self._record(report)
        elif isinstance(report, RunProgressed):
            row.progress = report.progress
            row.env_steps = report.env_steps
            row.mean_return = report.mean_return
            row.speed = report.steps_per_second
        elif isinstance(report, RunScored):
            row.score = report.score
        elif isinstance(report, RunAlerted):
            row.alerts[report.alert] = report.severity
        elif isinstance(report, RunFinished):
            self._finished(member, report)
        elif isinstance(report, RunFailed):
            row.status = "failed"
            self._failures[member.run_id] = report.message
            if report.refused and not self._recorded:
                self._refusal = self._refusal or report.message
                return True
            self.table.print(f"{member.label}: failed: {report.message.splitlines()[0]}", "dim")
        elif isinstance(report, RunNotBegun):
            row.status = "not begun"
        self.table.update()
        return False

    def _lines(self, height: int) -> list[StyledLine]:
        return run_lines(self._rows, self._totals(), height)

    def _totals(self) -> str:
        return format_totals(self._rows, time.perf_counter() - self._start)

    def _progress(self) -> str:
        return f"{format_count(sum(row.env_steps for row in self._rows), brief=True)} env_steps  {self._totals()}"

    def _record(self, report: RunBegan) -> None:
        if self._recorded:
            return
        known = read_group(self._root, self._group.name)
        older = () if known is None else tuple(m for m in known.members if m not in self._group.members)
        write_group(self._root, replace(self._group, members=(*older, *self._group.members)))
        self._recorded = True
        for note in report.notes:
            self.table.print(f"note: {note}", "dim")

    def _finished(self, member: Member, report: RunFinished) -> None:
        result = report.result
        row = self._rows[report.member]
        row.status = result["status"]
        row.env_steps = result["env_steps"]
        row.progress = 1.0 if row.status == "finished" else row.progress
        self._codes.append(result["exit_code"])
        steps = f"{result['env_steps']} env_steps"
        self.table.print(f"{member.label}: {result['status']} at {steps} ({result['stop_reason']})", "dim")

    def close(self, interrupted: bool, signal_code: int) -> GroupOutcome:
        """The summary, read from the runs' folders."""
        if self._refusal is not None:
            raise UserError(self._refusal)
        results = [read_member(self._root, member) for member in self._group.members]
        steps = sum(result.env_steps for result in results) - self._steps_before
        summary = summarize(results, steps, time.perf_counter() - self._start)
        code = 1 if self._failures else signal_code if interrupted else max(self._codes, default=0)
        return GroupOutcome(self._group, results, summary, code, self._failures)


def _steps(runs_root: Path, member: Member) -> int:
    paths = RunPaths(runs_root / member.run_id)
    clock = read_status(paths).get("clock") if paths.exists else None
    return int(clock.get("env_steps") or 0) if isinstance(clock, dict) else 0
