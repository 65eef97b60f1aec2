"""The PPO page: four envs, save, load, act for ever."""

from gymlab import PPO
from gymlab.sb3 import make_vec_env

vec_env = make_vec_env("CartPole-v1", n_envs=4)

model = PPO("MlpPolicy", vec_env, verbose=1)
model.learn(total_timesteps=25_000)
model.save("ppo_cartpole")

del model

model = PPO.load("ppo_cartpole")

obs = vec_env.reset()
for _ in range(200):  # endless in the documentation
    action, _states = model.predict(obs)
    obs, rewards, dones, info = vec_env.step(action)
    vec_env.render("human")
