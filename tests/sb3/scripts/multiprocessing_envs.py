"""The examples page: envs made by functions of one's own, here in one process."""

import gymnasium as gym

from gymlab import PPO
from gymlab.sb3 import SubprocVecEnv


def make_env(env_id, rank, seed=0):
    def _init():
        env = gym.make(env_id, render_mode="rgb_array")
        env.reset(seed=seed + rank)
        return env

    return _init


if __name__ == "__main__":
    env_id = "CartPole-v1"
    num_cpu = 2  # 4 in the documentation
    vec_env = SubprocVecEnv([make_env(env_id, i) for i in range(num_cpu)])

    model = PPO("MlpPolicy", vec_env, verbose=1)
    model.learn(total_timesteps=4_096)  # 25_000 in the documentation

    obs = vec_env.reset()
    for _ in range(200):  # 1000 in the documentation
        action, _states = model.predict(obs)
        obs, rewards, dones, info = vec_env.step(action)
        vec_env.render()
