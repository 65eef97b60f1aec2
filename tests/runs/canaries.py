"""An env that tells its secrets wherever an env can: in prints, to its descriptors, and in the error it dies of."""

import logging
import os
import subprocess
import sys

import gymnasium
import numpy as np
from gymnasium import spaces


class Talkative(gymnasium.Env):
    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, api_key="", url="", header="", note="", fails_at=10**9):
        self.told = [api_key, url, header, note, *(value for name, value in os.environ.items() if "CANARY" in name)]
        self.fails_at, self.steps = fails_at, 0
        self._tell()

    def _tell(self):
        for text in self.told:
            print("printed", text)
            print("to stderr", text, file=sys.stderr)
            os.write(2, f"written to the descriptor: {text}\n".encode())
        subprocess.run([sys.executable, "-S", "-c", "import sys; print(sys.argv[1])", " ".join(self.told)], check=True)
        logging.getLogger("gymlab.canaries").warning("%s", self.told)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {"told": self.told}

    def step(self, action):
        self.steps += 1
        if self.steps == self.fails_at:
            raise RuntimeError("cannot log in with " + ", ".join(self.told))
        return np.zeros(1, np.float32), 1.0, self.steps % 7 == 0, False, {}


if "Talkative-v0" not in gymnasium.registry:
    gymnasium.register("Talkative-v0", entry_point=Talkative, max_episode_steps=20)
