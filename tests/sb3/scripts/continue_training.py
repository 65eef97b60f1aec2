"""Go on with a saved model on a vec env of its own."""

from gymlab import PPO
from gymlab.sb3 import make_vec_env

vec_env = make_vec_env("CartPole-v1", n_envs=4)
model = PPO("MlpPolicy", vec_env, verbose=0)
model.learn(total_timesteps=10_000)
model.save("ppo_continued.zip")

model = PPO.load("ppo_continued", env=vec_env)
before = model.num_timesteps
model.learn(total_timesteps=8_192, reset_num_timesteps=False)
assert model.num_timesteps == before + 8_192
