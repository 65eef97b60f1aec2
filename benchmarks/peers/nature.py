"""A PPO gradient step on 84 x 84 x 4 bytes with Nature's network, in eager PyTorch. Prints one JSON line."""

import json
import os
import time

import torch
from torch import nn

BATCH, STEPS = 256, 6
torch.set_num_threads(os.cpu_count() or 1)
torch.manual_seed(0)


class Network(nn.Module):
    def __init__(self, actions: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(),
        )  # fmt: skip
        self.policy, self.value = nn.Linear(512, actions), nn.Linear(512, 1)

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.trunk(obs.float() / 255)
        return self.policy(x), self.value(x)[:, 0]


def main() -> None:
    network = Network(6)
    optimiser = torch.optim.Adam(network.parameters(), 2.5e-4, eps=1e-5)
    obs = torch.randint(0, 256, (BATCH, 4, 84, 84), dtype=torch.uint8)
    actions, advantages, returns = torch.randint(0, 6, (BATCH,)), torch.randn(BATCH), torch.randn(BATCH)
    old = torch.full((BATCH,), -1.79)

    def step() -> None:
        logits, values = network(obs)
        chosen = torch.distributions.Categorical(logits=logits)
        ratio = (chosen.log_prob(actions) - old).exp()
        policy = -torch.min(ratio * advantages, ratio.clamp(0.9, 1.1) * advantages).mean()
        loss = policy + 0.5 * (values - returns).pow(2).mean() - 0.01 * chosen.entropy().mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimiser.step()

    step()
    began = time.perf_counter()
    for _ in range(STEPS):
        step()
    print(json.dumps({"samples_per_second": STEPS * BATCH / (time.perf_counter() - began)}))


if __name__ == "__main__":
    main()
