"""The callbacks page: checkpoints and evaluations side by side, an event, a function, a progress bar."""

import gymnasium as gym

from gymlab import PPO
from gymlab.sb3 import CallbackList, CheckpointCallback, EvalCallback, EveryNTimesteps

checkpoint_callback = CheckpointCallback(save_freq=1000, save_path="./logs/")
eval_env = gym.make("CartPole-v1")
eval_callback = EvalCallback(
    eval_env, best_model_save_path="./logs/best_model", log_path="./logs/results", eval_freq=1000, verbose=0
)
callback = CallbackList([checkpoint_callback, eval_callback])

model = PPO("MlpPolicy", "CartPole-v1")
model.learn(2048, callback=callback)

checkpoint_on_event = CheckpointCallback(save_freq=1, save_path="./logs/events/")
event_callback = EveryNTimesteps(n_steps=500, callback=checkpoint_on_event)
model.learn(2048, callback=[event_callback, lambda locals_, globals_: True], progress_bar=True)
