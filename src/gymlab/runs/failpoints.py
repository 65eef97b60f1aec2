"""Places where a test can kill the process or fill the disk: `$GYMLAB_FAILPOINT=name[:count[:enospc]]`."""

from __future__ import annotations

import errno
import os
from collections import Counter

# In the order in which a save reaches them. `between_renames` only when a checkpoint of the same step is replaced,
# the prune points only when something is pruned.
SAVE_FAILPOINTS = (
    "save_begin",
    "tmp_made",
    "half_policy",
    "after_policy",
    "half_state",
    "after_state",
    "half_json",
    "after_json",
    "before_rename",
    "between_renames",
    "after_rename",
    "after_sync",
    "before_index",
    "after_index",
    "before_prune",
    "prune_renamed",
    "mid_prune",
    "after_prune",
)
METRIC_FAILPOINTS = ("before_commit", "after_columns", "mid_commit", "after_commit")

_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Do nothing, unless $GYMLAB_FAILPOINT names this point: then end the process, or raise disk full."""
    setting = os.environ.get("GYMLAB_FAILPOINT")
    if not setting or setting.partition(":")[0] != name:
        return
    _passed[name] += 1
    _, count, action = (setting + "::").split(":")[:3]
    if _passed[name] != int(count or 1):
        return
    if action == "enospc":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os._exit(137)
