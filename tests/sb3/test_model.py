"""Models: acting, learning, going on, and what a run or a callback changes."""

import gymnasium
import jax
import numpy as np
import pytest

import gymlab
from gymlab.core.clock import Clock
from gymlab.core.errors import UserError
from gymlab.sb3 import (
    A2C,
    PPO,
    REINFORCE,
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    SlowerEngine,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
    make_vec_env,
)
from gymlab.session.build import build
from gymlab.training.named_tensors import to_tensors
from tests.example_envs import Custom, MaskedWalk, Switches, Variable

TINY = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [4]}, "seed": 0}

WIDE = {"policy_kwargs": {"net_arch": [4], "log_std_init": 3.0}}  # most actions lie outside a Box


class Five(Variable):
    """Always five steps, so every evaluation gives 5."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length = self.left = 5
        return self._obs(), {}


def tiny(env="CartPole-v1", **more):
    return PPO("MlpPolicy", env, **{**TINY, **more})


def numbers(model):
    """Everything that was learnt, as bytes by name."""
    parts = model.get_parameters()
    return {f"{part}/{name}": array.tobytes() for part in parts for name, array in parts[part].items()}


class Count(BaseCallback):
    """Stops after some steps, and remembers the hooks."""

    def __init__(self, steps=None):
        super().__init__()
        self.steps, self.hooks = steps, []

    def _on_rollout_start(self):
        self.hooks.append("start")

    def _on_rollout_end(self):
        self.hooks.append("end")

    def _on_training_end(self):
        self.hooks.append("done")

    def _on_step(self):
        return self.steps is None or self.n_calls < self.steps


@pytest.mark.parametrize(
    ("env", "batch"), [("CartPole-v1", (3,)), ("Pendulum-v1", (3, 1)), (Custom(), (3, 2)), (Switches(), (3, 3))]
)
def test_predict_gives_what_the_env_takes(env, batch):
    model = tiny(env, **WIDE)
    space, observation = model.action_space, model.observation_space
    samples = [observation.sample() for _ in range(3)]
    action, state = model.predict(samples[0], deterministic=True)
    assert isinstance(action, np.ndarray)
    assert space.contains(action)
    assert action.dtype == space.dtype
    assert state is None
    together = jax.tree.map(lambda *parts: np.stack(parts), *samples)
    actions, _ = model.predict(together, deterministic=True)
    assert actions.shape == batch
    np.testing.assert_allclose(actions[0], action, rtol=1e-5)
    sampled = [model.predict(samples[0])[0] for _ in range(20)]
    assert all(space.contains(each) for each in sampled)
    assert len({each.tobytes() for each in sampled}) > 1


def test_continuous_actions_are_clipped_to_the_box():
    model = tiny("Pendulum-v1", **WIDE)
    actions = np.stack([model.predict(np.zeros((3, 3), np.float32))[0] for _ in range(50)])
    assert (np.abs(actions) <= 2).all()
    assert (np.abs(actions) == 2).mean() > 0.5


def test_masked_actions_are_never_chosen():
    model = tiny(MaskedWalk())
    chosen = {int(model.predict(0, action_masks=[False, True, True])[0]) for _ in range(30)}
    assert chosen == {1, 2}


@pytest.mark.parametrize(
    ("obs", "told"),
    [
        (np.zeros(3), r"shape \(3,\): expected \(4,\), or \('n', 4\)"),
        ((np.zeros(4), {}), "obs, info = env.reset"),
        ("left", "is not an array of float32"),
    ],
)
def test_a_wrong_observation_is_explained(obs, told):
    with pytest.raises(UserError, match=told):
        tiny().predict(obs)


def test_the_same_seed_acts_and_learns_the_same_and_looking_first_changes_nothing():
    one, two = tiny(), tiny()
    two.predict(np.zeros(4, np.float32), deterministic=True)
    assert numbers(one.learn(64)) == numbers(two.learn(64))
    parts = build(one._recipe(objects=False), 0)  # as `gymlab train --seed 0` would
    hp = parts.plan.scheduled(Clock(), 2)
    straight = parts.program.advance(parts.program.start(0), Clock(), hp, np.inf).state
    for name, tensor in to_tensors(straight.algorithm.params).items():
        assert tensor.tobytes() == numbers(one)[f"policy/weights/{name}"]
    obs = np.ones((3, 4), np.float32)
    assert [one.predict(obs)[0].tolist() for _ in range(5)] == [two.predict(obs)[0].tolist() for _ in range(5)]
    assert tiny(seed=None).seed != tiny(seed=None).seed


def test_learning_in_pieces_is_learning_at_once_and_a_new_start_is_not():
    at_once, pieces = tiny().learn(128), tiny().learn(64)
    pieces.learn(64, reset_num_timesteps=False)
    assert pieces.num_timesteps == at_once.num_timesteps == 128
    assert numbers(pieces) == numbers(at_once)
    assert pieces.learn(32).num_timesteps == 32  # the weights stay, the clock starts anew
    at_once.learn(32, reset_num_timesteps=False)
    assert numbers(pieces) != numbers(at_once)


@pytest.mark.parametrize(  # compiled, and host by replay
    "env", ["CartPole-v1", pytest.param("tests.example_envs:Variable-v0", marks=pytest.mark.slow)]
)
def test_going_on_after_loading_is_never_having_stopped(env, tmp_path):
    model = tiny(env).learn(96)
    model.save(tmp_path / "model")
    for reset in (False, True):
        loaded = PPO.load(tmp_path / "model", env=env)
        assert loaded.num_timesteps == model.num_timesteps
        for each in (model, loaded):
            each.learn(64, reset_num_timesteps=reset)
        assert model.num_timesteps == loaded.num_timesteps
        assert numbers(model) == numbers(loaded)
        model.save(tmp_path / "model")


def test_env_objects_are_trained_on_and_stay_open():
    env = Variable()
    model = tiny(env).learn(64)
    assert env.length  # it was reset: training used this very object
    assert model.engine == "gymnasium"
    env.reset(seed=0)
    model.learn(32, reset_num_timesteps=False)
    assert model.num_timesteps == 96


def test_a_vec_env_of_an_id_is_trained_on_its_port_until_someone_changes_it():
    assert tiny(make_vec_env("CartPole-v1", n_envs=2)).engine == "jax"
    changed = make_vec_env("CartPole-v1", n_envs=2)
    changed.set_attr("gravity", 1.0)
    assert tiny(changed).engine == "gymnasium"
    assert tiny("CartPole-v1", engine="gymnasium").engine == "gymnasium"
    assert tiny("tests.example_envs:Variable-v0").engine == "gymnasium"
    with pytest.raises(UserError, match="engine='jax' cannot train"):
        tiny("tests.example_envs:Variable-v0", engine="jax")


@pytest.mark.slow
def test_a_callback_for_every_step_is_told_of_the_host_engine_and_sees_the_weights_of_its_moment():
    class Look(Count):
        def _on_rollout_start(self):
            super()._on_rollout_start()
            self.hooks.append(numbers(self.model))

    model, look = PPO("MlpPolicy", "CartPole-v1", seed=0), Look()
    first = numbers(model)
    with pytest.warns(SlowerEngine, match="Look is called at every step"):
        model.learn(4096, look)
    assert look.n_calls == look.num_timesteps == model.num_timesteps == 4096
    assert [hook for hook in look.hooks if isinstance(hook, str)] == ["start", "end", "start", "end", "done"]
    assert look.hooks[1] == first
    assert look.hooks[4] not in (first, numbers(model))


def test_a_callback_ends_training_at_once_without_a_further_update():
    model, reference = tiny(Variable()), tiny(Variable())
    model.learn(10_000, Count(32 + 5))
    assert model.num_timesteps == 37
    assert numbers(model) == numbers(reference.learn(32))
    model.learn(32, reset_num_timesteps=False)  # the rollout that was broken off is not counted
    assert model.num_timesteps == 64


def test_a_callback_sees_what_a_step_gave():
    class Watch(Count):
        def _on_step(self):
            facts = self.locals
            assert facts["new_obs"].shape == (1, 1)
            assert facts["actions"].shape == facts["rewards"].shape == facts["dones"].shape == (1,)
            assert facts["n_steps"] == (self.n_calls - 1) % 32 + 1
            for done, info in zip(facts["dones"], facts["infos"], strict=True):
                assert ("terminal_observation" in info) == done == ("episode" in info)
            self.hooks += [True] * int(facts["dones"].sum())
            return True

    watch = Watch()
    tiny(make_vec_env(Variable)).learn(64, watch)
    assert watch.hooks.count(True) >= 4


def test_a_callback_per_update_keeps_the_compiled_env():
    class Rare(Count):
        per_step = False

    rare = Rare(3)
    model = tiny().learn(10_000, rare)  # no warning
    assert rare.n_calls == 3
    assert rare.num_timesteps == model.num_timesteps == 3 * 32


def test_evaluation_keeps_the_best_and_counts_patience(tmp_path):
    evaluate = EvalCallback(
        Five(),
        callback_after_eval=StopTrainingOnNoModelImprovement(max_no_improvement_evals=2),
        eval_freq=8,
        n_eval_episodes=2,
        best_model_save_path=str(tmp_path / "best"),
        log_path=str(tmp_path),
        verbose=0,
    )
    model = tiny(Five())
    model.learn(10_000, evaluate)
    assert model.num_timesteps == 32  # one best, then three evaluations that were no better
    assert evaluate.best_mean_reward == 5
    assert PPO.load(tmp_path / "best" / "best_model").predict(np.ones(1, np.float32))[0].shape == ()
    with np.load(tmp_path / "evaluations.npz") as log:
        assert log["timesteps"].tolist() == [8, 16, 24, 32]
        assert log["results"].shape == (4, 2)


def test_a_checkpoint_in_the_middle_of_a_rollout_can_be_gone_on_from(tmp_path, capsys):
    save = CheckpointCallback(save_freq=10, save_path=str(tmp_path), name_prefix="cp")
    stop = StopTrainingOnMaxEpisodes(max_episodes=4, verbose=1)
    tiny(Variable()).learn(10_000, CallbackList([save, stop]))
    assert stop.n_episodes == 4
    assert "because 4 episodes ended" in capsys.readouterr().out
    half_way = PPO.load(tmp_path / "cp_10_steps", env=Variable())
    half_way.learn(32, reset_num_timesteps=False)
    assert half_way.num_timesteps == 32


def test_verbose_prints_a_table_with_what_callbacks_record(capsys):
    class Note(Count):
        def _on_step(self):
            self.logger.record("mine/answer", 42)
            self.logger.record_mean("mine/mean", self.n_calls)
            return True

    tiny(Variable(), verbose=1).learn(32, Note())
    told = capsys.readouterr().out
    assert "gymnasium engine" in told
    for name in ("ep_rew_mean", "total_timesteps", "value_loss", "answer", "16.5"):
        assert name in told


def test_reinforce_goes_on_from_a_file(tmp_path):
    model = REINFORCE("MlpPolicy", Variable(), n_steps=32, policy_kwargs={"net_arch": [4]}, seed=0)
    model.learn(32).save(tmp_path / "r")
    loaded = REINFORCE.load(tmp_path / "r", env=Variable())
    assert numbers(loaded) == numbers(model)


def test_another_env_must_have_the_same_spaces():
    model = tiny("CartPole-v1")
    model.set_env(make_vec_env("CartPole-v1", n_envs=2))
    assert model.n_envs == 2
    with pytest.raises(UserError, match=r"observation space .* is not the model's"):
        model.set_env(gymnasium.make("Acrobot-v1"))


def test_parameters_move_between_models(tmp_path):
    taught, fresh = tiny(), tiny(seed=5)
    assert numbers(taught) != numbers(fresh)
    fresh.set_parameters(taught.get_parameters())
    assert numbers(taught) == numbers(fresh)
    taught.save(tmp_path / "taught.zip")
    other = tiny(seed=6)
    other.set_parameters(tmp_path / "taught.zip")
    assert numbers(other) == numbers(taught)
    with pytest.raises(UserError, match="unknown part 'weights'"):
        other.set_parameters({"weights": {}})


def test_a_run_is_kept_when_asked_for_and_served_by_gymlab_load(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = tiny().learn(128, run="mine", runs_dir=tmp_path / "kept")
    assert numbers(model) == numbers(tiny().learn(128))
    assert (tmp_path / "kept" / "mine" / "metrics.db").is_file()
    assert not (tmp_path / "runs").exists()
    served = gymlab.load(tmp_path / "kept" / "mine" / "checkpoints" / "128")
    obs = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(served.predict(obs)[0], model.predict(obs, deterministic=True)[0])
    with pytest.raises(UserError, match="by its id"):
        tiny(Variable()).learn(32, run=True)


def test_gymlab_load_takes_a_saved_model_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = A2C("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [4]}, seed=0)
    model.save("walker")
    served = gymlab.load("walker")
    assert isinstance(served, A2C)
    obs = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(served.predict(obs, deterministic=True)[0], model.predict(obs, deterministic=True)[0])
    with pytest.raises(UserError, match="nowhere"):
        gymlab.load("nowhere")


class Pictures(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)


def test_pictures_are_read_by_convolutions_that_policy_and_value_share():
    weights = PPO("CnnPolicy", Pictures(), seed=0).get_parameters()["policy"]
    shapes = sorted(array.shape for name, array in weights.items() if name.endswith("weight"))
    assert shapes == [(3, 3, 64, 64), (4, 4, 32, 64), (8, 8, 1, 32), (64, 512), (512, 1), (512, 2)]


def test_learning_needs_steps_and_an_env():
    with pytest.raises(UserError, match="total_timesteps=0"):
        tiny().learn(0)
    with pytest.raises(UserError, match="has no env"):
        PPO("MlpPolicy").learn(10)
    with pytest.raises(UserError, match="got int"):
        tiny().learn(10, callback=3)
