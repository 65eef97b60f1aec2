"""`gymlab doctor`: checks versions, devices, extras, codecs and disk."""

from __future__ import annotations

import json as json_module
from typing import Any

import typer

from gymlab.cli.options import Json


def doctor(json: Json = False) -> None:
    """Show versions, devices, extras, codecs and disk, and how to mend what is wrong. Exit code 1: runs cannot start.

    Example: gymlab doctor
    """
    from gymlab.session.machine_check import examine

    facts = examine()
    if json:
        typer.echo(json_module.dumps(facts))
    else:
        _print(facts)
    raise typer.Exit(0 if facts["ok"] else 1)


def _print(facts: dict[str, Any]) -> None:
    machine = facts["machine"]
    extras = facts["extras"]
    codecs = facts["codecs"]
    missing = [name for name, there in extras.items() if not there]
    rows = {
        "versions": ", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
        "machine": f"{machine['system']}, {machine['cpu']}, {machine['cores']} cores",
        "memory": f"{_size(machine['memory_free_bytes'])} free of {_size(machine['memory_bytes'])}",
        "devices": ", ".join(f"{d['platform']}:{d['id']} ({d['kind']})" for d in facts["devices"]) or "none",
        "extras": ", ".join(name for name, there in extras.items() if there) or "none",
        "not installed": f"{', '.join(missing)}: pip install 'gymlab[NAME]'" if missing else "",
        "codecs": ", ".join(f"{name} {codecs[name]}" for name in ("av", "ffmpeg") if codecs[name]) or "none",
    }
    if facts["runs"] is not None:
        rows["runs"] = f"{facts['runs']['folder']}, {_size(facts['runs']['free_bytes'])} free"
        rows["cache"] = f"{facts['cache']['folder']}, {_size(facts['cache']['bytes'])} used"
    rows |= {f"${name}": value for name, value in facts["variables"].items()}
    for name, text in rows.items():
        if text:
            typer.echo(f"{name:<14} {text}")
    for problem in facts["problems"]:
        colour = typer.colors.RED if problem["level"] == "essential" else typer.colors.YELLOW
        typer.echo(f"{typer.style(problem['level'], fg=colour)}: {problem['what']}")
        typer.echo(f"  fix: {problem['fix']}")
    typer.echo("next: gymlab train CartPole-v1" if facts["ok"] else "then: gymlab doctor")


def _size(count: int | None) -> str:
    from gymlab.core.format import format_bytes

    if count is None:
        return "unknown"
    return format_bytes(count, binary=True)
