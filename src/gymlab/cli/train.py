"""`gymlab train` and `gymlab resume`."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Annotated

import typer

from gymlab.cli.options import (
    Background,
    Detach,
    EnvImports,
    FullBudget,
    FullKeySets,
    JsonAtEnd,
    Jsonl,
    KeepFullBudget,
    LaunchOptions,
    NewRunOptions,
    Queued,
    QueueKey,
    Quiet,
    ResumeOptions,
    RunSeed,
    Seeds,
    TensorBoard,
    Vmap,
    Wait,
    Wandb,
    output_mode,
)
from gymlab.cli.queue import queue_resume, queue_training
from gymlab.cli.startup import outlived_by_children, seconds_since_start
from gymlab.cli.targets import RecipeArguments, group_named, newest_interrupted, only_recipe
from gymlab.core.errors import UserError
from gymlab.session.run_guard import guard_command
from gymlab.session.startup_tuning import resume_collection

if TYPE_CHECKING:
    from gymlab.recipes.resolve import Resolved
    from gymlab.recipes.schema import Recipe
    from gymlab.runs.paths import RunPaths
    from gymlab.session.result import Result
    from gymlab.session.run_summary import RunSummary
    from gymlab.session.session import Options, Start
    from gymlab.trackers.assemble import Trackers

Overrides = Annotated[list[str] | None, typer.Argument(help="key=value, e.g. learning_rate=1e-3 n_envs=16.")]


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(help="ENV[:VARIANT], e.g. CartPole-v1:ppo, my_package:MyEnv-v0 or recipes/mine.yaml:fast."),
    ] = None,
    overrides: Overrides = None,
    seed: RunSeed = 0,
    seeds: Seeds = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="J", min=1, help="With --seeds: how many runs at once.")
    ] = None,
    vmap: Vmap = None,
    budget: Annotated[str | None, typer.Option(help="When to end, e.g. 100k, '1M env_steps', '10k vec_steps'.")] = None,
    full_budget: FullBudget = False,
    sets: FullKeySets = None,
    run_id: Annotated[str | None, typer.Option(help="Name of the run's folder.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Label of the run; may be given again.")] = None,
    group: Annotated[str | None, typer.Option(help="Runs that belong together.")] = None,
    note: Annotated[str | None, typer.Option(help="Free text kept with the run.")] = None,
    resume: Annotated[str | None, typer.Option(help="RUN[/CHECKPOINT] to go on with.")] = None,
    no_optimizer: Annotated[bool, typer.Option("--no-optimizer", help="With --resume: forget its moments.")] = False,
    reschedule: Annotated[
        bool, typer.Option("--reschedule", help="With --resume: stretch schedules to the new budget.")
    ] = False,
    init_from: Annotated[str | None, typer.Option(help="RUN[/CHECKPOINT] whose policy to start from.")] = None,
    engine: Annotated[str | None, typer.Option(help="auto, gymnasium, jax, ale or envpool.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or gpu.")] = None,
    imports: EnvImports = None,
    wandb: Wandb = None,
    tensorboard: TensorBoard = False,
    detach: Detach = False,
    wait: Wait = None,
    queue: Queued = False,
    key: QueueKey = None,
    quiet: Quiet = False,
    json: JsonAtEnd = False,
    jsonl: Jsonl = False,
    background: Background = None,
) -> None:
    """Train an agent and leave a run directory behind.

    Example: gymlab train CartPole-v1:ppo learning_rate=1e-3 --seed 1
    """
    launch = _launch_options(background, detach, wandb, tensorboard, wait=wait, quiet=quiet, json=json, jsonl=jsonl)
    if resume is not None:
        if queue:
            raise UserError("--queue with --resume: write `gymlab resume RUN --queue`")
        first = () if recipe is None else (recipe,)  # with --resume the first positional is an override too
        changed = (*first, *(overrides or ()))
        changes = ResumeOptions(
            changed,
            tuple(sets or ()),
            budget,
            full_budget or None,
            run_id,
            no_optimizer=no_optimizer,
            reschedule=reschedule,
        )
        _resume(resume, changes, launch)
        return
    name = only_recipe() if recipe is None else recipe
    target = RecipeArguments(name, overrides or [], sets or [], budget, engine, device, imports or [])
    new = NewRunOptions(seed, run_id, group, tuple(tag or ()), note, full_budget, init_from)
    if queue:
        if vmap is not None or jobs is not None:
            raise UserError("--queue makes one job per seed: leave out --vmap and --jobs (`gymlab queue limits`)")
        queue_training(target, seeds, new, key, launch)
    elif seeds is not None or vmap is not None:
        from gymlab.cli.train_group import GroupLayout, train_group

        train_group(target, GroupLayout(seeds, vmap, jobs), new, launch)
    else:
        _train(target, new, launch)


def resume(
    run: Annotated[
        str | None,
        typer.Argument(
            help="RUN[/CHECKPOINT]; default: the newest interrupted. An earlier checkpoint forks a new run."
        ),
    ] = None,
    overrides: Overrides = None,
    budget: Annotated[str | None, typer.Option(help="A new budget.")] = None,
    full_budget: KeepFullBudget = None,
    sets: FullKeySets = None,
    run_id: Annotated[str | None, typer.Option(help="Name of the new run, when it forks.")] = None,
    no_optimizer: Annotated[bool, typer.Option("--no-optimizer", help="Forget the optimiser's moments.")] = False,
    reschedule: Annotated[bool, typer.Option("--reschedule", help="Stretch schedules to the new budget.")] = False,
    detach: Detach = False,
    wait: Wait = None,
    queue: Queued = False,
    key: QueueKey = None,
    quiet: Quiet = False,
    json: JsonAtEnd = False,
    jsonl: Jsonl = False,
    background: Background = None,
) -> None:
    """Go on with a run exactly where its last checkpoint left it; by default with the newest interrupted one.

    Example: gymlab resume @last --budget 200k
    """
    launch = _launch_options(background, detach, wait=wait, quiet=quiet, json=json, jsonl=jsonl)
    if run is not None and "=" in run:  # the name of a run has no '=': this is the first override
        overrides = [run, *(overrides or [])]
        run = None
    changes = ResumeOptions(
        tuple(overrides or ()),
        tuple(sets or ()),
        budget,
        full_budget,
        run_id,
        no_optimizer=no_optimizer,
        reschedule=reschedule,
    )
    if queue:
        queue_resume(run, changes, key, launch)
    else:
        _resume(run, changes, launch)


def _launch_options(
    background: int | None,
    detach: bool,
    wandb: str | None = None,
    tensorboard: bool = False,
    *,
    wait: bool | None,
    quiet: bool,
    json: bool,
    jsonl: bool,
) -> LaunchOptions:
    """The options as typed; the process in the background neither detaches again nor answers in JSON."""
    if background is not None:
        from gymlab.cli.detach import redact_output

        redact_output()
        detach = False
        json = False
    return LaunchOptions(output_mode(quiet=quiet, json=json, jsonl=jsonl), detach, wandb, tensorboard, wait)


def _train(target: RecipeArguments, new: NewRunOptions, launch: LaunchOptions) -> None:
    """Train one new run, here or in the background."""
    with guard_command(gc_off=True):
        from gymlab.recipes.project_settings import runs_folder
        from gymlab.runs.selection import select_checkpoint
        from gymlab.trackers.assemble import choose_trackers

        resolved = target.resolve()
        root = runs_folder()
        trackers = choose_trackers(launch.wandb, launch.tensorboard)
        source = None if new.init_from is None else select_checkpoint(new.init_from, root, default="best")
        if launch.detach:
            from gymlab.cli.detach import detach_new

            detach_new(root, new.run_id, resolved.recipe.name, json=launch.json)
            return
        from gymlab.session.jax_setup import use_threads
        from gymlab.session.start import NewRun

        use_threads(resolved.recipe)

        _run(resolved.recipe, _session_options(new, resolved, trackers), NewRun(root, source), launch)


def _session_options(new: NewRunOptions, resolved: Resolved, trackers: Trackers) -> Options:
    from gymlab.cli.detach import typed_command
    from gymlab.session.session import Options

    return Options(
        seed=new.seed,
        run_id=new.run_id,
        group=new.group,
        tags=new.tags,
        note=new.note,
        full_budget=new.full_budget,
        command=typed_command(),
        trackers=trackers,
        solved_at_source=resolved.solved_at_source,
        notes=tuple(resolved.notes),
    )


def _resume(run: str | None, changes: ResumeOptions, launch: LaunchOptions) -> None:
    """Resume the run or group of that name, by default the newest interrupted run."""
    with guard_command(gc_off=True):
        from gymlab.recipes.project_settings import runs_folder
        from gymlab.runs.selection import select_checkpoint

        name = run or newest_interrupted()
        if name is None:
            return
        group = group_named(name)
        if group is not None:
            from gymlab.cli.train_group import resume_group

            resume_collection()
            resume_group(group, changes, launch)
            return
        from gymlab.trackers.assemble import choose_trackers

        trackers = choose_trackers(launch.wandb, launch.tensorboard)
        paths, which = select_checkpoint(name, runs_folder(), default="last")
        if launch.detach:
            from gymlab.cli.detach import detach_again

            detach_again(paths, which, changes.run_id, [] if run else [name], json=launch.json)
            return
        _resume_one(paths, which, changes, trackers, launch)


def _resume_one(paths: RunPaths, which: str, changes: ResumeOptions, trackers: Trackers, launch: LaunchOptions) -> None:
    from gymlab.cli.detach import typed_command
    from gymlab.recipes.resolve import read_run_recipe
    from gymlab.session.jax_setup import use_threads
    from gymlab.session.start import Continuation, NothingToDo, continue_run

    continuation = Continuation(
        which=which,
        overrides=changes.changes,
        budget=changes.budget,
        optimizer=not changes.no_optimizer,
        full_budget=changes.full_budget,
        reschedule=changes.reschedule,
        run_id=changes.run_id,
        command=typed_command(),
        trackers=trackers,
    )
    if not changes.changes:
        use_threads(read_run_recipe(paths.recipe))
    try:
        recipe, options, start = continue_run(paths, continuation)
    except NothingToDo as message:
        typer.echo(str(message))
        return
    _run(recipe, options, start, launch)


def _run(recipe: Recipe, options: Options, start: Start, launch: LaunchOptions) -> None:
    """Train one run in this process, with a console."""
    from gymlab.features.console import make_console
    from gymlab.features.key_presses import make_key_presses
    from gymlab.features.video import FilmsAtEnd
    from gymlab.session.session import prepare

    leave = outlived_by_children() if launch.wait is None else not launch.wait
    with make_console(launch.output) as console, make_key_presses(launch.output) as keys:
        watchers = [console, keys]

        def announce(summary: RunSummary) -> None:
            console.announce(summary.header, summary.notes)

        with prepare(recipe, options, start, watchers=watchers, announce=announce) as session:
            result = session.run(FilmsAtEnd(leave, console.filming))
    _finish(result, launch)


def _finish(result: Result, launch: LaunchOptions) -> None:
    if launch.json:
        typer.echo(json_module.dumps(result.as_json()))
    elif launch.output != "quiet":
        for line in result.summary(seconds_since_start()):
            typer.echo(line)
    if result.exit_code:
        raise typer.Exit(result.exit_code)
