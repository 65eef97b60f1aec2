"use strict";
// The physics of small envs, as Gymnasium has them, and a forward pass. No drawing here: everything can be tested.
const gymlab = (() => {
  const clip = (x, low, high) => Math.min(high, Math.max(low, x));
  const wrap = (x) => ((((x + Math.PI) % (2 * Math.PI)) + 2 * Math.PI) % (2 * Math.PI)) - Math.PI;
  const uniform = (low, high) => low + Math.random() * (high - low);

  const cartpole = {
    fps: 50,
    sliders: { gravity: [9.8, 0, 30], force: [10, 1, 30], "pole length": [0.5, 0.1, 2] },
    reset: () => [0, 0, 0, 0].map(() => uniform(-0.05, 0.05)),
    observe: (s) => s,
    push: (s, way) => { s[1] += way * 0.8; },
    step([x, v, angle, spin], action, p) {
      const half = p["pole length"], pole = 0.1, total = 1.1, cos = Math.cos(angle), sin = Math.sin(angle);
      const push = ((action === 1 ? p.force : -p.force) + pole * half * spin * spin * sin) / total;
      const turn = (p.gravity * sin - cos * push) / (half * (4 / 3 - (pole * cos * cos) / total));
      const gain = push - (pole * half * turn * cos) / total;
      const next = [x + 0.02 * v, v + 0.02 * gain, angle + 0.02 * spin, spin + 0.02 * turn];
      return { state: next, reward: 1, ended: Math.abs(next[0]) > 2.4 || Math.abs(next[2]) > (12 * 2 * Math.PI) / 360 };
    },
  };
  const mountaincar = (continuous) => ({
    fps: 30,
    sliders: continuous ? { gravity: [0.0025, 0, 0.005], power: [0.0015, 0, 0.004] } : { gravity: [0.0025, 0, 0.005], force: [0.001, 0, 0.003] },
    reset: () => [uniform(-0.6, -0.4), 0],
    observe: (s) => s,
    push: (s, way) => { s[1] = clip(s[1] + way * 0.02, -0.07, 0.07); },
    step([x, v], action, p) {
      const pull = Math.cos(3 * x) * -p.gravity;
      v = clip(v + (continuous ? clip(action[0], -1, 1) * p.power : (action - 1) * p.force) + pull, -0.07, 0.07);
      x = clip(x + v, -1.2, 0.6);
      if (x === -1.2 && v < 0) v = 0;
      const ended = x >= (continuous ? 0.45 : 0.5) && v >= 0;
      const reward = continuous ? (ended ? 100 : 0) - 0.1 * action[0] * action[0] : -1;
      return { state: [x, v], reward, ended };
    },
  });
  const pendulum = {
    fps: 30,
    sliders: { gravity: [10, 0, 25], mass: [1, 0.2, 3] },
    reset: () => [uniform(-Math.PI, Math.PI), uniform(-1, 1)],
    observe: ([angle, spin]) => [Math.cos(angle), Math.sin(angle), spin],
    push: (s, way) => { s[1] = clip(s[1] + way * 3, -8, 8); },
    step([angle, spin], action, p) {
      const torque = clip(action[0], -2, 2), dt = 0.05;
      const cost = wrap(angle) ** 2 + 0.1 * spin * spin + 0.001 * torque * torque;
      spin = clip(spin + (((3 * p.gravity) / 2) * Math.sin(angle) + (3 / p.mass) * torque) * dt, -8, 8);
      return { state: [angle + spin * dt, spin], reward: -cost, ended: false };
    },
  };
  const acrobot = {
    fps: 15,
    sliders: { gravity: [9.8, 0, 25], torque: [1, 0, 3] },
    reset: () => [0, 0, 0, 0].map(() => uniform(-0.1, 0.1)),
    observe: ([a, b, da, db]) => [Math.cos(a), Math.sin(a), Math.cos(b), Math.sin(b), da, db],
    push: (s, way) => { s[2] = clip(s[2] + way * 2, -4 * Math.PI, 4 * Math.PI); },
    step(state, action, p) {
      const torque = (action - 1) * p.torque;
      const change = ([a, b, da, db]) => {
        const d1 = 0.25 + (1 + 0.25 + Math.cos(b)) + 2, d2 = 0.25 + 0.5 * Math.cos(b) + 1;
        const phi2 = 0.5 * p.gravity * Math.cos(a + b - Math.PI / 2);
        const phi1 = -0.5 * db * db * Math.sin(b) - db * da * Math.sin(b) + 1.5 * p.gravity * Math.cos(a - Math.PI / 2) + phi2;
        const ddb = (torque + (d2 / d1) * phi1 - 0.5 * da * da * Math.sin(b) - phi2) / (0.25 + 1 - (d2 * d2) / d1);
        return [da, db, -(d2 * ddb + phi1) / d1, ddb];
      };
      const along = (s, k, h) => s.map((x, i) => x + h * k[i]), h = 0.2;
      const k1 = change(state), k2 = change(along(state, k1, h / 2)), k3 = change(along(state, k2, h / 2)), k4 = change(along(state, k3, h));
      const next = state.map((x, i) => x + (h / 6) * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]));
      next[0] = wrap(next[0]); next[1] = wrap(next[1]);
      next[2] = clip(next[2], -4 * Math.PI, 4 * Math.PI); next[3] = clip(next[3], -9 * Math.PI, 9 * Math.PI);
      const ended = -Math.cos(next[0]) - Math.cos(next[1] + next[0]) > 1;
      return { state: next, reward: ended ? 0 : -1, ended };
    },
  };
  const worlds = { "CartPole-v1": cartpole, "CartPole-v0": cartpole, "MountainCar-v0": mountaincar(false),
    "MountainCarContinuous-v0": mountaincar(true), "Pendulum-v1": pendulum, "Acrobot-v1": acrobot };

  const curves = { tanh: Math.tanh, relu: (x) => Math.max(0, x), elu: (x) => (x > 0 ? x : Math.expm1(x)),
    silu: (x) => x / (1 + Math.exp(-x)), leaky_relu: (x) => (x > 0 ? x : 0.01 * x),
    gelu: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))) };

  function forward(layers, x, activation) {
    layers.forEach(({ weight, bias }, i) => {
      const y = bias.slice();
      x.forEach((value, row) => weight[row].forEach((w, column) => { y[column] += value * w; }));
      x = i < layers.length - 1 ? y.map(curves[activation]) : y;
    });
    return x;
  }
  // What the greedy policy does with an observation, and what it thinks.
  function decide(policy, obs) {
    const seen = policy.normaliser ? obs.map((x, i) => clip((x - policy.normaliser.mean[i]) / policy.normaliser.scale[i], -policy.normaliser.clip, policy.normaliser.clip)) : obs;
    const out = forward(policy.actor, seen, policy.activation), value = forward(policy.critic, seen, policy.activation)[0];
    if (!policy.discrete) return { action: out.map((x, i) => clip(x, policy.low[i], policy.high[i])), value };
    const top = Math.max(...out), weights = out.map((x) => Math.exp(x - top)), sum = weights.reduce((a, b) => a + b);
    return { action: out.indexOf(top), probabilities: weights.map((w) => w / sum), value };
  }
  const defaults = (world) => Object.fromEntries(Object.entries(world.sliders).map(([name, [start]]) => [name, start]));
  // Plays an episode at once; how many steps it took. For tests and for the curious, from the console.
  function simulate(policy, most = 500, params = {}) {
    const world = worlds[policy.env], p = { ...defaults(world), ...params };
    let state = world.reset(), total = 0;
    for (let step = 1; step <= most; step++) {
      const { state: next, reward, ended } = world.step(state, decide(policy, world.observe(state)).action, p);
      state = next; total += reward;
      if (ended) return { steps: step, total, ended };
    }
    return { steps: most, total, ended: false };
  }
  return { worlds, decide, simulate, defaults };
})();
