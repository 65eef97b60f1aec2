"""A user's own algorithm, wrapper and feature, outside the package, train and resume."""

import json

from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths

MY_PPO = '''
import jax.numpy as jnp

from gymlab.algorithms.ppo import PPOAlgorithm, PPOSettings
from gymlab.core.schedules import constant
from gymlab.algorithms.settings import Positive


class MySettings(PPOSettings):
    pull: Positive = constant(0.1)
    """How strongly logits are pulled to zero."""


class MyPPO(PPOAlgorithm):
    """PPO with a penalty on large log-probabilities."""

    Settings = MySettings

    def loss(self, params, batch, hp):
        loss, metrics = super().loss(params, batch, hp)
        extra = hp["pull"] * jnp.mean(self.network(params).distribution(batch.obs).log_p ** 2)
        return loss + extra, {**metrics, "opt/pull": extra}
'''

MY_WRAPPER = """
import gymnasium


class W(gymnasium.RewardWrapper):
    def __init__(self, env, factor=2.0):
        super().__init__(env)
        self.factor = factor

    def reward(self, reward):
        return self.factor * float(reward)
"""

MY_FEATURE = """
from gymlab.training.events import Ended, Feature, Measured, Updated


class Count(Feature):
    name = "count"

    def __init__(self, by=1):
        self.by, self.total = by, 0

    def __call__(self, event, control):
        if isinstance(event, Updated):
            self.total += self.by * len(event.rows)
            control.emit(Measured(event.clock, {"env/count": float(self.total)}))

    def state(self):
        return {"total": self.total}

    def restore(self, state):
        self.total = state["total"]
"""

MY_ENCODER = '''
import equinox as eqx
import jax
import jax.numpy as jnp


class Waves(eqx.Module):
    """Sines of a normalised observation's random projections, through an MLP."""

    norm: eqx.nn.LayerNorm
    weight: jax.Array
    mlp: eqx.nn.MLP  # its activation function is a leaf, but no parameter
    size: int = eqx.field(static=True)

    def __init__(self, key, space):
        self.size = 6
        self.norm = eqx.nn.LayerNorm(space.shape)
        self.weight = jax.random.normal(key, (*space.shape, self.size))
        self.mlp = eqx.nn.MLP(self.size, self.size, width_size=5, depth=1, key=key)

    def __call__(self, obs):
        def one(obs):
            return self.mlp(jnp.sin(self.norm(obs) @ self.weight))

        return jnp.vectorize(one, signature="(n)->(m)")(obs)
'''

MY_OPTIMIZER = """
import optax


def make():
    return optax.chain(optax.clip(1.0), optax.scale_by_lion(b1=0.95))
"""

RECIPE = """
env:
  id: CartPole-v1
  wrappers:
    - ./my_wrapper.py:W: {factor: 3.0}
variants:
  mine:
    budget: 512 env_steps
    n_envs: 4
    n_steps: 16
    policy: {hidden: [8], encoder: ./my_encoder.py:Waves}
    eval: {episodes: 2, final_episodes: 2}
    features: [./my_feature.py:Count: {by: 2}]
    stop: {eval_return: 1e6}
    ./my_ppo.py:MyPPO:
      batch_size: 32
      epochs: 2
      pull: lin_0.2
      optimizer: ./my_optimizer.py:make
      weight_decay: 0.1
"""


FILES = {
    "my_ppo.py": MY_PPO,
    "my_wrapper.py": MY_WRAPPER,
    "my_feature.py": MY_FEATURE,
    "my_encoder.py": MY_ENCODER,
    "my_optimizer.py": MY_OPTIMIZER,
}


def test_what_users_write_themselves_trains_and_resumes(cli):
    for name, text in FILES.items():
        (cli.folder / name).write_text(text)
    (cli.folder / "recipes").mkdir()
    (cli.folder / "recipes/mine.yaml").write_text(RECIPE)
    done = cli("train", "recipes/mine.yaml:mine", "--run-id", "one", "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out.splitlines()[-1])
    # One reward of 1 a step, times three: a return is three times the length.
    assert 2 * result["eval"]["greedy"]["mean"] % 3 == 0  # two episodes
    manifest = json.loads((cli.folder / "runs/one/manifest.json").read_text())
    assert len(manifest["references"]) == 5
    assert "wraps the Gymnasium env" in manifest["engine"]["engine_reason"]
    more = cli("resume", "one", "--budget", "1024", "--json")
    assert more.code == 0, more.err
    assert cli("eval", "one", "--episodes", "2").code == 0

    with MetricsReader(RunPaths(cli.folder / "runs/one").metrics) as reader:
        rows = reader.read(["updates", "opt/pull", "hp/pull", "env/count"])
    assert rows["env/count"][-1] == 2 * rows["updates"][-1] == 32
    assert (rows["opt/pull"] > 0)[:8].all()
    last = load_checkpoint(RunPaths(cli.folder / "runs/one"), "last")
    names = last.policy
    encoder = {
        name.removeprefix("weights/policy_trunk.encoder."): array.shape
        for name, array in names.items()
        if name.startswith("weights/policy_trunk.encoder.")
    }
    assert encoder == {
        "norm.weight": (4,),
        "norm.bias": (4,),
        "weight": (4, 6),
        "mlp.layers.0.weight": (5, 6),
        "mlp.layers.0.bias": (5,),
        "mlp.layers.1.weight": (6, 5),
        "mlp.layers.1.bias": (6,),
    }
    assert names["weights/policy_trunk.encoder.norm.bias"].any()  # zeros at first: it was trained
    assert "algorithm/optimiser/moments/0/1/mu/policy_head.weight" in last.state
    assert rows["hp/pull"][0] > rows["hp/pull"][4] > 0
