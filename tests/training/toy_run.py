"""The toy run of `test_protocol` as a process that can be killed: python -m tests.training.toy_run ENGINE FILE.

It goes on from the file if there is one, replaces it after every update, and prints the number of updates made.
"""

import sys
import time
from pathlib import Path

import numpy as np

from gymlab.core.clock import Clock
from gymlab.runs import files, tensors
from gymlab.session.jax_setup import set_up_jax
from tests.training.test_protocol import UPDATES, advance, make_trainer

PAUSE = 0.02  # seconds between updates, for a kill to find the time


def main(kind: str, path: Path) -> None:
    set_up_jax(path.parent / "cache")
    trainer = make_trainer(kind)
    state, clock = trainer.start(0), Clock()
    if path.exists():
        saved = tensors.decode(path.read_bytes())
        clock = Clock(*(int(count) for count in saved.pop("clock")))
        state, reasons = trainer.load(state, saved)
        assert reasons == []
    while clock.updates < UPDATES:
        state, clock, _ = advance(trainer, state, clock, 1)
        files.write_bytes(path, tensors.encode({**trainer.save(state), "clock": np.array(clock)}))
        print(int(clock.updates), flush=True)
        time.sleep(PAUSE)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
