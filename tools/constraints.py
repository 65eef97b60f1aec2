"""Prints the constraints file that suits this Python: its own version's, else the next older's, else the oldest one."""

from __future__ import annotations

import sys
from pathlib import Path

Version = tuple[int, ...]


def version_of(file: Path) -> Version:
    """constraints-3.11.txt: (3, 11)"""
    return tuple(int(part) for part in file.stem.removeprefix("constraints-").split("."))


def choose(files: list[Path], python: Version) -> Path:
    oldest, *_ = ordered = sorted(files, key=version_of)
    return next((file for file in reversed(ordered) if version_of(file) <= python), oldest)


if __name__ == "__main__":
    print(choose(list(Path(__file__).parent.parent.glob("constraints-*.txt")), sys.version_info[:2]).name)
