"""Getting started: a model in one line, for a registered env."""

from gymlab import A2C

model = A2C("MlpPolicy", "CartPole-v1").learn(10_000)
