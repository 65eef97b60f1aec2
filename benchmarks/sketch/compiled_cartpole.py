"""Yardstick: bare PPO on CartPole with the env compiled in. No features, no checks, only speed.

python compiled_cartpole.py N_ENVS N_STEPS MINIBATCH EPOCHS TOTAL_STEPS [CHUNK]
Prints env steps/s of the steady state. gymlab with everything switched on should stay within 10 % of it.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

N, T, MINIBATCH, EPOCHS, TOTAL = map(int, sys.argv[1:6])
CHUNK = int(sys.argv[6]) if len(sys.argv) > 6 else 10
GAMMA, LAM, CLIP, LR = 0.98, 0.8, 0.2, 1e-3


def env_step(state, action, key):
    x, xd, th, thd, t = state.T
    force = jnp.where(action == 1, 10.0, -10.0)
    cos, sin = jnp.cos(th), jnp.sin(th)
    tmp = (force + 0.05 * thd**2 * sin) / 1.1
    th_acc = (9.8 * sin - cos * tmp) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    x_acc = tmp - 0.05 * th_acc * cos / 1.1
    new = jnp.stack([x + 0.02 * xd, xd + 0.02 * x_acc, th + 0.02 * thd, thd + 0.02 * th_acc, t + 1], -1)
    ended = (abs(new[:, 0]) > 2.4) | (abs(new[:, 2]) > 12 * 2 * np.pi / 360) | (new[:, 4] >= 500)
    fresh = jnp.concatenate([jax.random.uniform(key, (N, 4), minval=-0.05, maxval=0.05), jnp.zeros((N, 1))], -1)
    return jnp.where(ended[:, None], fresh, new), ended.astype(jnp.float32), jnp.where(ended, new[:, 4], 0)


def init_mlp(key, out, last_scale):
    sizes, keys = [4, 64, 64, out], jax.random.split(key, 3)
    scale = [1, 1, last_scale]
    return [
        (jax.random.normal(k, (a, b)) * a**-0.5 * s, jnp.zeros(b))
        for k, a, b, s in zip(keys, sizes, sizes[1:], scale, strict=False)
    ]


def mlp(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    return x @ params[-1][0] + params[-1][1]


optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(LR, eps=1e-5))


def loss_fn(params, obs, actions, old_logp, adv, returns):
    logp = jax.nn.log_softmax(mlp(params["pi"], obs))
    ratio = jnp.exp(jnp.take_along_axis(logp, actions[:, None], 1)[:, 0] - old_logp)
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    policy = -jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * adv).mean()
    return policy + 0.5 * ((mlp(params["vf"], obs)[:, 0] - returns) ** 2).mean()


def iteration(carry, key):
    params, opt, state = carry
    collect_key, update_key = jax.random.split(key)

    def step(state, key):
        act_key, env_key = jax.random.split(key)
        obs = state[:, :4]
        logp = jax.nn.log_softmax(mlp(params["pi"], obs))
        action = jax.random.categorical(act_key, logp)
        value = mlp(params["vf"], obs)[:, 0]
        state, ended, length = env_step(state, action, env_key)
        return state, (obs, action, jnp.take_along_axis(logp, action[:, None], 1)[:, 0], value, ended, length)

    state, (obs, actions, logp, values, ended, lengths) = jax.lax.scan(step, state, jax.random.split(collect_key, T))
    last_value = mlp(params["vf"], state[:, :4])[:, 0]

    def back(carry, x):
        running, next_value = carry
        end, value = x
        delta = 1.0 + GAMMA * next_value * (1 - end) - value
        running = delta + GAMMA * LAM * (1 - end) * running
        return (running, value), running

    _, adv = jax.lax.scan(back, (jnp.zeros(N), last_value), (ended, values), reverse=True)
    flat = [x.reshape(N * T, *x.shape[2:]) for x in (obs, actions, logp, adv, adv + values)]

    def minibatch(carry, index):
        params, opt = carry
        grads = jax.grad(loss_fn)(params, *[x[index] for x in flat])
        updates, opt = optimiser.update(grads, opt, params)
        return (optax.apply_updates(params, updates), opt), None

    def epoch(carry, key):
        order = jax.random.permutation(key, N * T).reshape(-1, MINIBATCH)
        return jax.lax.scan(minibatch, carry, order)[0], None

    (params, opt), _ = jax.lax.scan(epoch, (params, opt), jax.random.split(update_key, EPOCHS))
    return (params, opt, state), (lengths.sum(), ended.sum())


@jax.jit
def chunk(carry, key):
    return jax.lax.scan(iteration, carry, jax.random.split(key, CHUNK))


params = {"pi": init_mlp(jax.random.key(0), 2, 0.01), "vf": init_mlp(jax.random.key(1), 1, 1)}
start = jnp.concatenate(
    [jax.random.uniform(jax.random.key(9), (N, 4), minval=-0.05, maxval=0.05), jnp.zeros((N, 1))], -1
)
carry, key = (params, optimiser.init(params), start), jax.random.key(5)
calls = max(2, TOTAL // (N * T * CHUNK))
t0 = time.perf_counter()
for i in range(calls):
    key, sub = jax.random.split(key)
    carry, (length, count) = chunk(carry, sub)
    jax.block_until_ready(carry)
    if i == 0:
        t1 = time.perf_counter()
seconds = time.perf_counter() - t1
speed, episode = (calls - 1) * N * T * CHUNK / seconds, float(length.sum() / max(count.sum(), 1))
print(f"{speed:.0f} env steps/s, first call {t1 - t0:.1f} s, mean episode {episode:.0f}")
