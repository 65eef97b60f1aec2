"""The runnable blocks of a Markdown page. A comment on the line before a fence says what becomes of it:

`<!-- run -->` runs a bash or python block, `<!-- run: exit 2 -->` and `<!-- run: prints "text" -->` say what must come
of it, `<!-- file: name.py -->` writes the block to a file. A page's blocks share one folder, from top to bottom.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^<!-- (run|file)(?:: (.+?))? -->\n```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    line: int
    kind: str  # run or file
    told: list[str]  # what stands after the colon, in words
    language: str
    text: str


def blocks(page):
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        kind, told, language, body = found.groups()
        yield Block(text[: found.start()].count("\n") + 2, kind, shlex.split(told or ""), language, body)


def carry_out(block, folder):
    """Write or run one block; whatever is wrong with it comes back as text, None when all is well."""
    if block.kind == "file":
        target = folder / block.told[0]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.text, encoding="utf-8")
        return None
    wanted = dict(zip(block.told[::2], block.told[1::2], strict=True))
    command = ["bash", "-euo", "pipefail"] if block.language == "bash" else [sys.executable, "-"]
    done = subprocess.run(
        command, check=False, cwd=folder, env=environment(), input=block.text, capture_output=True, text=True,
        timeout=240,
    )  # fmt: skip
    said = done.stdout + done.stderr
    if done.returncode != int(wanted.get("exit", 0)):
        return f"exit code {done.returncode}\n{said}"
    if "Traceback" in said:
        return said
    if wanted.get("prints", "") not in said:
        return f"it did not print {wanted['prints']!r}\n{said}"
    return None


def environment():
    """A new user's: the program on the path, runs in the current folder."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ours = {name: value for name, value in os.environ.items() if name not in ("GYMLAB_RUNS", "GYMLAB_CONFIG")}
    return {**ours, "PATH": path, "COLUMNS": "120"}
