"""Which file names work on Linux, macOS and Windows alike, as far as Linux can tell."""

from collections import Counter
from pathlib import PurePosixPath

_RESERVED = {"con", "prn", "aux", "nul", "conin$", "conout$"}
_RESERVED |= {f"{port}{digit}" for port in ("com", "lpt") for digit in "123456789\xb9\xb2\xb3"}
_LONGEST = 150  # Windows' 260 less room for the folder of all runs


def unportable_names(paths):
    """Relative paths that Windows or macOS would refuse, change or confuse with another."""
    paths = list(paths)
    folded = Counter(path.lower() for path in paths)
    return [path for path in paths if folded[path.lower()] > 1 or len(path) > _LONGEST or not _portable(path)]


def _portable(path):
    return all(
        part.partition(".")[0].rstrip(" ").lower() not in _RESERVED
        and not part.endswith((".", " "))
        and not any(letter in '<>:"/\\|?*' or ord(letter) < 32 for letter in part)
        for part in PurePosixPath(path).parts
    )
