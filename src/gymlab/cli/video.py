"""`gymlab video`: a reel of a run, ready to upload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gymlab.cli.options import RunArgument


def video(
    run: RunArgument = "@last",
    out: Annotated[Path | None, typer.Option(metavar="PATH", help="Default: videos/reel.mp4 in the run.")] = None,
    height: Annotated[int, typer.Option(help="Lines of the picture: 1080, 720 ...", min=120, max=2160)] = 1080,
    seconds: Annotated[float, typer.Option(help="Of each checkpoint, at most.", min=0.5)] = 6.0,
) -> None:
    """Make a film about a run: titles, its checkpoints at play, the learning curve, early beside late.

    Example: gymlab video @last --out reel.mp4
    """
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.selection import select_run

    paths = select_run(run, runs_folder())
    from gymlab.media.highlight_reel import ReelStyle, make_reel

    target = out or paths.videos / "reel.mp4"
    style = ReelStyle((height * 16 // 9 // 2 * 2, height // 2 * 2), clip_seconds=seconds)
    episodes = make_reel(paths, target, style)
    typer.echo(f"reel of {episodes} {'episode' if episodes == 1 else 'episodes'}: {target}")
