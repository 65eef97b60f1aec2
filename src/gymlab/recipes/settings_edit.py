"""Writing into gymlab.toml: one entry of `[overrides]` is added or replaced, everything else stays as it is written."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from gymlab.core.errors import UserError
from gymlab.recipes.project_settings import OVERRIDES
from gymlab.runs.files import write_text


def write_override(path: Path, name: str, texts: list[str]) -> None:
    """Have `[overrides]` say this of a recipe; the file is made where there is none."""
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    entry = f"{json.dumps(name)} = [{', '.join(map(json.dumps, texts))}]\n"
    after = edited(before, name, entry)
    try:
        wanted = tomllib.loads(before)
        wanted[OVERRIDES] = {**wanted.get(OVERRIDES, {}), name: texts}
        right = tomllib.loads(after) == wanted
    except tomllib.TOMLDecodeError:
        right = False
    if not right:
        raise UserError(
            f"{path} is written in a way that cannot be edited here: add by hand, below [overrides]: {entry}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, after)


def edited(text: str, name: str, entry: str) -> str:
    """The text with the entry in its `[overrides]` table, which is added where there is none."""
    header = re.search(rf"^[ \t]*\[[ \t]*{OVERRIDES}[ \t]*\][^\n]*(\n|$)", text, re.MULTILINE)
    if header is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}[{OVERRIDES}]\n{entry}"
    rest = text[header.end() :]
    old = re.search(rf"^[ \t]*[\"']{re.escape(name)}[\"'][ \t]*=[ \t]*\[[^\]]*\][^\n]*(\n|$)", rest, re.MULTILINE)
    begin, end = (0, 0) if old is None else old.span()
    head = text[: header.end()]
    return f"{head}{'' if head.endswith(chr(10)) else chr(10)}{rest[:begin]}{entry}{rest[end:]}"
