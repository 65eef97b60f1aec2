"""The shape of the source, beside the figures of the last release: what CI reports and does not fail.

    python tools/house_report.py            # a table at the end of `make check`
    python tools/house_report.py --release  # keep today's figures as the ones to compare with

Layers, types, stale pages, duplicate class names and private words fail CI elsewhere (`make check`, tests/docs).
"""

import ast
import json
import re
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

from duplicates import LEAST, duplicates_in
from open_types import open_types

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/gymlab"
RELEASE = ROOT / "tools/house_release.json"
LONG_FILE, LONG_FUNCTION, SMALL_FILE = 500, 60, 60


def measure() -> tuple[dict[str, float], list[str]]:
    """The figures, and the places behind those that have some."""
    counts: Counter[str] = Counter()
    lengths, places, used = [], [], Counter()
    defined: dict[str, str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = str(path.relative_to(SOURCE))
        lines = text.count("\n")
        lengths.append(lines)
        counts["fmt: skip"] += text.count("fmt: skip")
        counts["files with Popen"] += bool(re.search(r"\bPopen\(", text))
        used.update(re.findall(r"\w+", text))
        if lines > LONG_FILE:
            places.append(f"{name}: {lines} lines")
        tree = ast.parse(text)
        named, bare = open_types(text, tree)
        counts["Any"] += named
        counts["object"] += bare
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONG_FUNCTION:
                    counts["long functions"] += 1
                    places.append(f"{name}:{node.lineno} {node.name}: {length} lines")
                if not node.decorator_list and not node.name.startswith("__"):
                    defined.setdefault(node.name, f"{name}:{node.lineno} {node.name}")
            elif isinstance(node, ast.Assign) and packed(node):
                counts["packed"] += 1
            elif isinstance(node, ast.ExceptHandler) and broad(node):
                counts["broad excepts"] += 1
    unused = [place for name, place in defined.items() if used[name] == 1 and not named_elsewhere(name)]
    places += [f"{place}: nothing names it" for place in unused]
    duplicates = duplicates_in(SOURCE)
    places += map(str, duplicates)
    total = sum(lengths)
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    figures = {
        "folders with code": len(folders),
        "files": len(lengths),
        "lines": total,
        "median lines of a file": statistics.median(lengths),
        "95th percentile": sorted(lengths)[int(0.95 * len(lengths))],
        "longest file": max(lengths),
        f"files under {SMALL_FILE} lines": sum(1 < lines < SMALL_FILE for lines in lengths),
        f"files over {LONG_FILE} lines": sum(lines > LONG_FILE for lines in lengths),
        f"functions over {LONG_FUNCTION} lines": counts["long functions"],
        "packed assignments per 1,000 lines": round(1000 * counts["packed"] / total, 2),
        "Any per 1,000 lines": round(1000 * counts["Any"] / total, 1),
        "bare object per 1,000 lines": round(1000 * counts["object"] / total, 1),
        "fmt: skip": counts["fmt: skip"],
        "files with Popen": counts["files with Popen"],
        "broad excepts": counts["broad excepts"],
        "functions that nothing names": len(unused),
        f"duplicates of {LEAST} tokens or more": len(duplicates),
    }
    return figures, places


def packed(node: ast.Assign) -> bool:
    return isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)


def broad(node: ast.ExceptHandler) -> bool:
    return node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))


def named_elsewhere(name: str) -> bool:
    """In tests, docs or benchmarks, or as the override of a library's method."""
    command = ["git", "grep", "-qw", name, "--", "tests", "docs", "benchmarks", "pyproject.toml", "*.html", "*.js"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main() -> None:
    figures, places = measure()
    if "--release" in sys.argv:
        RELEASE.write_text(json.dumps(figures, indent=1) + "\n")
        return
    before = json.loads(RELEASE.read_text()) if RELEASE.exists() else {}
    print(f"\n{'the house':38s} {'release':>9s} {'now':>9s}")
    for name, figure in figures.items():
        print(f"{name:38s} {before.get(name, '-')!s:>9s} {figure!s:>9s}")
    if places:
        print("places to look at (no failures):", *places[:40], sep="\n  ")


if __name__ == "__main__":
    main()
