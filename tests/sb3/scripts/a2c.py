"""The A2C page: the same with A2C."""

from gymlab import A2C
from gymlab.sb3 import make_vec_env

vec_env = make_vec_env("CartPole-v1", n_envs=4)

model = A2C("MlpPolicy", vec_env, verbose=1)
model.learn(total_timesteps=25_000)
model.save("a2c_cartpole")

del model

model = A2C.load("a2c_cartpole")

obs = vec_env.reset()
for _ in range(200):  # endless in the documentation
    action, _states = model.predict(obs)
    obs, rewards, dones, info = vec_env.step(action)
    vec_env.render("human")
