"""What tests of recipes share: a good recipe, and writing and reading one."""

from pathlib import Path

from gymlab.recipes.problems import Problems
from gymlab.recipes.yaml_source import read_text

GOOD = """\
env:
  id: CartPole-v1
  solved_at: 475
variants:
  ppo:
    budget: 100k env_steps
    n_envs: 8
    n_steps: 32
    policy: {hidden: [64, 64], activation: tanh}
    ppo:
      learning_rate: lin_1e-3
      batch_size: 64
      epochs: 4
  fast:
    extends: ppo
    n_envs: 16
"""


def write_recipe(folder, text, name="recipes/mine.yaml"):
    """A recipe file in a folder."""
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def plain(text):
    """YAML text as plain values; it must have no problems."""
    problems = Problems()
    node = read_text(text, "t.yaml", problems)
    assert not problems
    return node.to_data()
