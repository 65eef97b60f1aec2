"""train, resume and eval."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gymlab.cli.options import EnvImports, JsonAtEnd, Quiet, RunSeed
from gymlab.cli.queueing import Order, queue_again, queue_new, seeds_of, written
from gymlab.cli.startup import gc_off_during_start, run_guard
from gymlab.cli.targets import Sought, group_named, newest_interrupted, only_recipe
from gymlab.core.errors import UserError

if TYPE_CHECKING:
    from gymlab.session.result import Result

RecipeArgument = Annotated[
    str | None,
    typer.Argument(help="ENV[:VARIANT], e.g. CartPole-v1:ppo, my_package:MyEnv-v0 or recipes/mine.yaml:fast."),
]
Overrides = Annotated[list[str] | None, typer.Argument(help="key=value, e.g. learning_rate=1e-3 n_envs=16.")]
Detach = Annotated[bool, typer.Option("--detach", help="Train in the background; return when training has begun.")]
Queued = Annotated[bool, typer.Option("--queue", help="Put it into the queue and return; see `gymlab queue`.")]
Key = Annotated[
    str | None, typer.Option("--key", metavar="TEXT", help="With --queue: asked twice with one key, it is done once.")
]
Background = Annotated[int | None, typer.Option("--in-background", hidden=True)]
Wandb = Annotated[
    str | None, typer.Option("--wandb", metavar="[=PROJECT]", help="Copy to Weights & Biases, e.g. --wandb=my-project.")
]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Copy to TensorBoard files in the run's folder.")]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="Stream events as JSON lines on stdout.")]
Seeds = Annotated[
    str | None,
    typer.Option("--seeds", metavar="K|A..B|A,B", help="One run per seed, as many at once as there are cores."),
]
Jobs = Annotated[int | None, typer.Option("--jobs", metavar="J", min=1, help="With --seeds: how many runs at once.")]
Vmap = Annotated[
    list[str] | None,
    typer.Option(
        "--vmap",
        metavar="[KEY=A,B]",
        help="With --seeds: one compiled program for all, also over scheduled hyperparameters.",
    ),
]
Sets = Annotated[list[str] | None, typer.Option("--set", help="key=value with the full key, e.g. ppo.gamma=0.99.")]


def train(
    recipe: RecipeArgument = None,
    overrides: Overrides = None,
    seed: RunSeed = 0,
    seeds: Seeds = None,
    jobs: Jobs = None,
    vmap: Vmap = None,
    budget: Annotated[str | None, typer.Option(help="When to end, e.g. 100k, '1M env_steps', '10k vec_steps'.")] = None,
    full_budget: Annotated[bool, typer.Option("--full-budget", help="Do not stop when solved.")] = False,
    sets: Sets = None,
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
    queue: Queued = False,
    key: Key = None,
    quiet: Quiet = False,
    json: JsonAtEnd = False,
    jsonl: Jsonl = False,
    background: Background = None,
) -> None:
    """Train an agent and leave a run directory behind.

    Example: gymlab train CartPole-v1:ppo learning_rate=1e-3 --seed 1
    """
    detach, json = _apart(detach, json, background)
    if queue and resume is not None:
        raise UserError("--queue with --resume: write `gymlab resume RUN --queue`")
    if resume is not None:
        _resume(
            resume,
            [*_keys(recipe), *(overrides or []), *(sets or [])],
            budget,
            run_id,
            full_budget=full_budget,
            no_optimizer=no_optimizer,
            reschedule=reschedule,
            output=_mode(quiet, json, jsonl),
            detach=detach,
            wandb=wandb,
            tensorboard=tensorboard,
        )
        return
    if recipe is None:
        recipe = only_recipe()
    sought = Sought(recipe, overrides or [], sets or [], budget, engine, device, imports or [])
    if queue:
        if vmap is not None or jobs is not None:
            raise UserError("--queue makes one job per seed: leave out --vmap and --jobs (`gymlab queue limits`)")
        asked = written(
            ("--tag", tag),
            ("--note", note),
            ("--init-from", init_from),
            ("--full-budget", full_budget),
            ("--tensorboard", tensorboard),
            ("--wandb", wandb),
        )
        queue_new(Order(sought, seeds_of(seed, seeds), run_id, group, key, asked), json=json or jsonl)
        return
    output = _mode(quiet, json, jsonl)
    trackers = (wandb, tensorboard)
    named = {"full_budget": full_budget, "tags": tuple(tag or ()), "note": note}
    if seeds is not None or vmap is not None:
        from gymlab.cli.many import Grid, train_many

        grid = Grid(seed, seeds, vmap, jobs, group or run_id)
        train_many(sought, grid, {**named, "init_from": init_from}, output, detach=detach, trackers=trackers)
        return
    _train_one(
        sought,
        {**named, "seed": seed, "run_id": run_id, "group": group},
        output,
        init_from,
        detach=detach,
        trackers=trackers,
    )


def _train_one(
    sought: Sought,
    named: dict[str, Any],
    output: str,
    init_from: str | None,
    *,
    detach: bool,
    trackers: tuple[str | None, bool],
) -> None:
    with run_guard(), gc_off_during_start() as until:
        from gymlab.recipes.project_settings import runs_folder
        from gymlab.runs.selection import select_checkpoint
        from gymlab.trackers.assemble import choose_trackers

        json = output in ("json", "jsonl")
        resolved = sought.resolve()
        root = runs_folder()
        chosen = choose_trackers(*trackers)
        source = None if init_from is None else select_checkpoint(init_from, root, default="best")
        if detach:
            from gymlab.cli.detach import detach_new

            detach_new(root, named["run_id"], resolved.recipe.name, json=json)
            return
        from gymlab.cli.detach import typed_command
        from gymlab.session.jax_setup import use_threads
        from gymlab.session.session import Options
        from gymlab.session.start import train as launch

        options = Options(
            **named,
            command=typed_command(),
            trackers=chosen,
            solved_at_source=resolved.solved_at_source,
            notes=tuple(resolved.notes),
        )
        use_threads(resolved.recipe)
        screen = _screen(output, resolved.notes)
        with screen, _keys_of(output) as keys:
            result = launch(
                resolved.recipe,
                options,
                root,
                watchers=[screen, keys],
                announce=until(screen.announce),
                init_from=source,
            )
        _finish(result, json=json, quiet=output == "quiet")


def resume(
    run: Annotated[
        str | None,
        typer.Argument(
            help="RUN[/CHECKPOINT]; default: the newest interrupted. An earlier checkpoint forks a new run."
        ),
    ] = None,
    overrides: Overrides = None,
    budget: Annotated[str | None, typer.Option(help="A new budget.")] = None,
    full_budget: Annotated[bool, typer.Option("--full-budget", help="Do not stop when solved.")] = False,
    sets: Sets = None,
    run_id: Annotated[str | None, typer.Option(help="Name of the new run, when it forks.")] = None,
    no_optimizer: Annotated[bool, typer.Option("--no-optimizer", help="Forget the optimiser's moments.")] = False,
    reschedule: Annotated[bool, typer.Option("--reschedule", help="Stretch schedules to the new budget.")] = False,
    detach: Detach = False,
    queue: Queued = False,
    key: Key = None,
    quiet: Quiet = False,
    json: JsonAtEnd = False,
    jsonl: Jsonl = False,
    background: Background = None,
) -> None:
    """Go on with a run exactly where its last checkpoint left it; by default with the newest interrupted one.

    Example: gymlab resume @last --budget 200k
    """
    detach, json = _apart(detach, json, background)
    if run is not None and "=" in run:  # a run's name holds none: it is the first override
        overrides = [run, *(overrides or [])]
        run = None
    if queue:
        more = written(
            ("", overrides),
            ("--set", sets),
            ("--budget", budget),
            ("--full-budget", full_budget),
            ("--no-optimizer", no_optimizer),
            ("--reschedule", reschedule),
        )
        queue_again(run, more, run_id, key, json=json or jsonl)
        return
    _resume(
        run,
        [*(overrides or []), *(sets or [])],
        budget,
        run_id,
        full_budget=full_budget,
        no_optimizer=no_optimizer,
        reschedule=reschedule,
        output=_mode(quiet, json, jsonl),
        detach=detach,
    )


def _resume(
    run: str | None,
    overrides: list[str],
    budget: str | None,
    run_id: str | None,
    *,
    full_budget: bool,
    no_optimizer: bool,
    reschedule: bool,
    output: str,
    detach: bool,
    wandb: str | None = None,
    tensorboard: bool = False,
) -> None:
    with run_guard():
        from gymlab.cli.detach import detach_again, typed_command
        from gymlab.recipes.project_settings import runs_folder
        from gymlab.runs.selection import select_checkpoint

        named = run or newest_interrupted()
        if named is None:
            return
        if (group := group_named(named)) is not None:
            from gymlab.cli.many import resume_many

            wishes = {"overrides": tuple(overrides), "budget": budget, "full_budget": full_budget}
            resume_many(group, wishes | {"reschedule": reschedule}, output, detach=detach)
            return
        from gymlab.trackers.assemble import choose_trackers

        trackers = choose_trackers(wandb, tensorboard)
        paths, which = select_checkpoint(named, runs_folder(), default="last")
        if detach:
            detach_again(paths, which, run_id, [] if run else [named], json=output in ("json", "jsonl"))
            return
        from gymlab.recipes.resolve import read_run_recipe
        from gymlab.session.jax_setup import use_threads
        from gymlab.session.start import Continuation, NothingToDo
        from gymlab.session.start import resume as go_on

        how = Continuation(
            which=which,
            overrides=tuple(overrides),
            budget=budget,
            optimizer=not no_optimizer,
            full_budget=full_budget,
            reschedule=reschedule,
            run_id=run_id,
            command=typed_command(),
            trackers=trackers,
        )
        if not overrides:
            use_threads(read_run_recipe(paths.recipe))
        screen = _screen(output, [])
        try:
            with screen, _keys_of(output) as keys, gc_off_during_start() as until:
                result = go_on(paths, how, watchers=[screen, keys], announce=until(screen.announce))
        except NothingToDo as told:
            typer.echo(str(told))
            return
        _finish(result, json=output in ("json", "jsonl"), quiet=output == "quiet")


def _apart(detach: bool, json: bool, background: int | None) -> tuple[bool, bool]:
    """Whether to start another process, and whether to answer in JSON: that process does neither."""
    if background is None:
        return detach, json
    from gymlab.cli.detach import redact_output

    redact_output()
    return False, False


def _keys(first: str | None) -> list[str]:
    """With --resume the first positional is an override too."""
    return [] if first is None else [first]


def _mode(quiet: bool, json: bool, jsonl: bool) -> Literal["quiet", "json", "jsonl", "people"]:
    return "jsonl" if jsonl else "json" if json else "quiet" if quiet else "people"


def _screen(mode: str, notes: list[str]) -> Any:
    from gymlab.features.console import make_console

    return make_console(mode, notes)


def _keys_of(mode: str) -> Any:
    from gymlab.features.key_presses import make_key_presses

    return make_key_presses(mode)


def _finish(result: Result, *, json: bool, quiet: bool) -> None:
    if json:
        typer.echo(json_module.dumps(result.as_json()))
    elif not quiet:
        for line in result.summary():
            typer.echo(line)
    if result.exit_code:
        raise typer.Exit(result.exit_code)
