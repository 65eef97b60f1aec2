"""train, resume and eval."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gymlab.cli.terminal import orderly

if TYPE_CHECKING:
    from gymlab.experiment.result import Result

RecipeArgument = Annotated[
    str | None,
    typer.Argument(help="ENV[:VARIANT], e.g. CartPole-v1:ppo, my_package:MyEnv-v0 or recipes/mine.yaml:fast."),
]
Overrides = Annotated[list[str] | None, typer.Argument(help="key=value, e.g. learning_rate=1e-3 n_envs=16.")]
Detach = Annotated[bool, typer.Option("--detach", help="Train in the background; return when training has begun.")]
Background = Annotated[int | None, typer.Option("--in-background", hidden=True)]
Wandb = Annotated[
    str | None, typer.Option("--wandb", metavar="[=PROJECT]", help="Copy to Weights & Biases, e.g. --wandb=my-project.")
]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Copy to TensorBoard files in the run's folder.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="End with one JSON object on stdout.")]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="Stream events as JSON lines on stdout.")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="key=value with the full key, e.g. ppo.gamma=0.99.")]


def train(
    recipe: RecipeArgument = None,
    overrides: Overrides = None,
    seed: Annotated[int, typer.Option(help="Seed of the run.", min=0)] = 0,
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
    imports: Annotated[list[str] | None, typer.Option("--import", help="Module that registers envs.")] = None,
    wandb: Wandb = None,
    tensorboard: TensorBoard = False,
    detach: Detach = False,
    quiet: Quiet = False,
    json: Json = False,
    jsonl: Jsonl = False,
    background: Background = None,
) -> None:
    """Train an agent and leave a run directory behind.

    Example: gymlab train CartPole-v1:ppo learning_rate=1e-3 --seed 1
    """
    detach, json = _apart(detach, json, background)
    if resume is not None:
        _resume(
            resume, [*_keys(recipe), *(overrides or []), *(sets or [])], budget, run_id, full_budget=full_budget,
            no_optimizer=no_optimizer, reschedule=reschedule, output=_mode(quiet, json, jsonl), detach=detach,
            wandb=wandb, tensorboard=tensorboard,
        )  # fmt: skip
        return
    if recipe is None:
        recipe = _only_recipe()
    with orderly():
        from gymlab.recipes.load import resolve
        from gymlab.recipes.settings_file import runs_folder
        from gymlab.runs.select import select_checkpoint
        from gymlab.trackers.assemble import choose_trackers

        resolved = resolve(
            recipe, overrides or [], sets=sets or [], budget=budget, engine=engine, device=device, imports=imports or []
        )
        root, trackers = runs_folder(), choose_trackers(wandb, tensorboard)
        source = None if init_from is None else select_checkpoint(init_from, root, default="best")
        if detach:
            from gymlab.cli.detach import detach_new

            detach_new(root, run_id, resolved.recipe.name, json=json or jsonl)
            return
        from gymlab.cli.detach import typed_command
        from gymlab.experiment.launch import train as launch
        from gymlab.experiment.session import Options

        options = Options(
            seed,
            run_id,
            full_budget,
            tuple(tag or ()),
            group,
            note,
            typed_command(),
            trackers=trackers,
            solved_at_source=resolved.solved_at_source,
        )
        screen = _screen(_mode(quiet, json, jsonl), resolved.notes)
        with screen, _keys_of(_mode(quiet, json, jsonl)) as keys:
            result = launch(
                resolved.recipe, options, root, watchers=[screen, keys], announce=screen.announce, init_from=source
            )
        _finish(result, json=json or jsonl, quiet=quiet)


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
    quiet: Quiet = False,
    json: Json = False,
    jsonl: Jsonl = False,
    background: Background = None,
) -> None:
    """Go on with a run exactly where its last checkpoint left it; by default with the newest interrupted one.

    Example: gymlab resume @last --budget 200k
    """
    detach, json = _apart(detach, json, background)
    if run is not None and "=" in run:  # a run's name holds none: it is the first override
        overrides, run = [run, *(overrides or [])], None
    _resume(
        run, [*(overrides or []), *(sets or [])], budget, run_id, full_budget=full_budget, no_optimizer=no_optimizer,
        reschedule=reschedule, output=_mode(quiet, json, jsonl), detach=detach,
    )  # fmt: skip


def evaluate(
    run: Annotated[str, typer.Argument(help="RUN[/CHECKPOINT]; the best checkpoint by default.")] = "@last",
    episodes: Annotated[int, typer.Option(help="Episodes of each way of acting.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the episodes.", min=0)] = 7,
    json: Json = False,
) -> None:
    """Score a run's policy on the real Gymnasium env, greedy and sampled.

    Example: gymlab eval @last --episodes 100
    """
    from gymlab.experiment.score import score_run
    from gymlab.recipes.settings_file import runs_folder
    from gymlab.runs.select import select_checkpoint

    paths, which = select_checkpoint(run, runs_folder(), default="best")
    checkpoint, evaluation, exact = score_run(paths, which, episodes=episodes, seed=seed)
    scores: dict[str, Any] = dict(evaluation.as_json())
    if exact is not None:
        scores["exact"] = exact
    if json:
        typer.echo(json_module.dumps({"run_id": paths.run_id, "checkpoint": checkpoint, "eval": scores}))
        return
    typer.echo(f"{paths.run_id}/{checkpoint}, seeds derived from {seed}")
    for mode, score in (("greedy", evaluation.greedy), ("sampled", evaluation.sampled)):
        cut = f", {score.truncated} cut by the time limit" if score.truncated else ""
        typer.echo(
            f"  {mode:8} {score.mean:10.2f} ± {score.std:.2f} over {score.n} episodes of {score.length:.0f} steps{cut}"
        )
    if exact is not None:
        typer.echo(f"  exact    {exact:10.4f} expected return of the greedy policy, from the transition table")
    typer.echo(f"next: gymlab runs show {paths.run_id}")


def _resume(
    run: str | None, overrides: list[str], budget: str | None, run_id: str | None, *, full_budget: bool,
    no_optimizer: bool, reschedule: bool, output: str, detach: bool, wandb: str | None = None,
    tensorboard: bool = False,
) -> None:  # fmt: skip
    with orderly():
        from gymlab.cli.detach import detach_again, typed_command
        from gymlab.recipes.settings_file import runs_folder
        from gymlab.runs.select import select_checkpoint

        named = run or _newest_interrupted()
        if named is None:
            return
        from gymlab.trackers.assemble import choose_trackers

        trackers = choose_trackers(wandb, tensorboard)
        paths, which = select_checkpoint(named, runs_folder(), default="last")
        if detach:
            detach_again(paths, which, run_id, [] if run else [named], json=output in ("json", "jsonl"))
            return
        from gymlab.experiment.launch import Continuation, NothingToDo
        from gymlab.experiment.launch import resume as go_on

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
        screen = _screen(output, [])
        try:
            with screen, _keys_of(output) as keys:
                result = go_on(paths, how, watchers=[screen, keys], announce=screen.announce)
        except NothingToDo as told:
            typer.echo(str(told))
            return
        _finish(result, json=output in ("json", "jsonl"), quiet=output == "quiet")


def _newest_interrupted() -> str | None:
    """The run that a bare `gymlab resume` goes on with; says what to do where there is none."""
    from gymlab.recipes.settings_file import runs_folder
    from gymlab.runs.checkpoints import steps
    from gymlab.runs.control import newest_run

    root = runs_folder()
    found = newest_run(root, "stopped", "crashed", having=steps)
    if found is not None:
        return found.run_id
    newest = newest_run(root)
    hint = f"extend one with `gymlab resume {newest.run_id} --budget N`" if newest else "`gymlab train CartPole-v1`"
    typer.echo(f"no interrupted run in '{root}': {hint}")
    return None


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


def _only_recipe() -> str:
    """A bare `gymlab train` runs the recipe in ./recipes, if there is exactly one."""
    from gymlab.core.errors import UserError
    from gymlab.recipes.lookup import user_files

    found = user_files()
    if len(found) == 1:
        return str(found[0])
    told = f"there are {len(found)} in ./recipes" if found else "there is none in ./recipes"
    raise UserError(f"which recipe? {told}: name one, e.g. `gymlab train CartPole-v1:ppo`")


def _mode(quiet: bool, json: bool, jsonl: bool) -> Literal["quiet", "json", "jsonl", "people"]:
    return "jsonl" if jsonl else "json" if json else "quiet" if quiet else "people"


def _screen(mode: str, notes: list[str]) -> Any:
    from gymlab.features.console import make_console

    return make_console(mode, notes)


def _keys_of(mode: str) -> Any:
    from gymlab.features.keys import make_keys

    return make_keys(mode)


def _finish(result: Result, *, json: bool, quiet: bool) -> None:
    if json:
        typer.echo(json_module.dumps(result.as_json()))
    elif not quiet:
        for line in result.summary():
            typer.echo(line)
    if result.exit_code:
        raise typer.Exit(result.exit_code)
