"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) name === "class" ? (node.className = value) : node.setAttribute(name, value);
  node.append(...children);
  return node;
};
const number = (x) => (x === null || x === undefined ? "–" : Number.isInteger(x) ? String(x) : x.toPrecision(4).replace(/\.?0+$/, ""));
const few = (items) => items.filter(Boolean).join(" · ");

document.title = `${data.run.id}: replay`;
$("title").textContent = data.run.recipe;
$("facts").textContent = few([data.run.id, `seed ${data.run.seed}`, data.run.result]);
$("footer").textContent = `Written by gymlab ${data.version}. This page needs no network.`;

function facts(target, pairs) {
  target.replaceChildren(...pairs.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", { title: text }, text))));
}
function bars(target, items) {
  target.replaceChildren(...items.map(({ label, share, from = 0, text, chosen }) => {
    const row = make("div", { class: chosen ? "bar chosen" : "bar" }, make("span", {}, label), make("i"), make("b", {}, text));
    row.children[1].style.cssText = `--share:${share};--from:${from}`;
    return row;
  }));
}

function replay(episodes) {
  $("replay").hidden = false;
  const film = $("film"), scrub = $("scrub"), screen = $("screen");
  let episode, step = 0, playing = false, charts = [];
  const blobs = episodes.map(() => null);
  const url = (i) => {
    if (!blobs[i]) {
      const raw = atob(episodes[i].film), bytes = Uint8Array.from(raw, (letter) => letter.charCodeAt(0));
      blobs[i] = URL.createObjectURL(new Blob([bytes], { type: "video/mp4" }));
    }
    return blobs[i];
  };
  const tabs = episodes.map((one, i) => {
    const tab = make("button", { role: "tab" }, one.title);
    tab.onclick = () => choose(i);
    return tab;
  });
  $("episodes").append(...tabs);

  function choose(i) {
    pause();
    episode = episodes[i];
    tabs.forEach((tab, k) => tab.setAttribute("aria-selected", k === i));
    const [left, top, width, height] = episode.picture, [whole] = episode.size;
    screen.style.aspectRatio = `${width} / ${height - 2}`;  // not a trace of the caption below
    screen.style.maxWidth = `calc(70vh * ${width / height})`;
    film.style.cssText = `width:${(100 * whole) / width}%;left:${(-100 * left) / width}%;top:${(-100 * top) / height}%`;
    film.src = url(i);
    scrub.max = episode.length;
    draw();
    go(0);
  }
  function go(to, seek = true) {
    step = Math.max(0, Math.min(episode.length, to));
    if (seek) film.currentTime = (Math.min(Math.floor(step / episode.stride), episode.frames - 1) + 0.5) / episode.fps;
    scrub.value = step;
    show();
  }
  function show() {
    const over = step >= episode.length, at = Math.min(step, episode.length - 1), row = (name) => episode.rows[name][at];
    facts($("now"), [
      ["step", `${step} / ${episode.length}`], ["action", over ? episode.ended : row("label")],
      ["reward", number(row("reward"))], ["return", number(row("return_so_far"))],
      ["value", number(row("value"))], ["return to go", number(row("return_to_go"))],
      ["advantage", number(row("advantage"))], ["GAE", number(row("gae"))],
    ]);
    const likely = row("probabilities");
    bars($("bars"), likely.length
      ? likely.map((share, i) => ({ label: episode.labels[i] ?? String(i), share, text: `${(100 * share).toFixed(1)}%`, chosen: (episode.labels[i] ?? String(i)) === row("label") })).sort((a, b) => likely.length > 8 ? b.share - a.share : 0).slice(0, 8)
      : [].concat(row("action")).map((x, i) => ({ label: episode.labels[i] ?? `action ${i}`, share: Math.abs(Math.tanh(x)) / 2, from: x < 0 ? 0.5 - Math.abs(Math.tanh(x)) / 2 : 0.5, text: number(x), chosen: true })));
    for (const { cursor, told, names } of charts) {
      cursor.setAttribute("x1", step); cursor.setAttribute("x2", step);
      told.textContent = names.map((name) => number(row(name))).join(" / ");
    }
  }
  function chart(title, names) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const all = names.flatMap((name) => episode.rows[name]).filter((x) => x !== null);
    if (!all.length) return null;
    let low = Math.min(...all), high = Math.max(...all);
    if (low === high) { low -= 1; high += 1; }
    svg.setAttribute("viewBox", `0 0 ${Math.max(1, episode.length)} 100`);
    svg.setAttribute("preserveAspectRatio", "none");
    names.forEach((name, k) => {
      const path = document.createElementNS(svg.namespaceURI, "path");
      path.setAttribute("d", episode.rows[name].map((y, x) => (y === null ? "" : `${x && episode.rows[name][x - 1] !== null ? "L" : "M"}${x} ${(96 - (92 * (y - low)) / (high - low)).toFixed(1)}`)).join(""));
      if (k) path.setAttribute("class", "second");
      svg.append(path);
    });
    const cursor = document.createElementNS(svg.namespaceURI, "line");
    cursor.setAttribute("y1", 0); cursor.setAttribute("y2", 100);
    svg.append(cursor);
    const pick = (event) => { pause(); const box = svg.getBoundingClientRect(); go(Math.round((episode.length * (event.clientX - box.left)) / box.width)); };
    svg.onpointerdown = (event) => { svg.setPointerCapture(event.pointerId); pick(event); };
    svg.onpointermove = (event) => { if (event.buttons) pick(event); };
    const told = make("span");
    $("charts").append(make("div", { class: "chart" }, make("h3", {}, make("span", {}, title), told), svg));
    return { cursor, told, names };
  }
  function draw() {
    $("charts").replaceChildren();
    charts = [chart("value / return to go", ["value", "return_to_go"]), chart("probability of the action", ["probability"]), chart("reward", ["reward"]), chart("return so far", ["return_so_far"])].filter(Boolean);
  }
  function pause() { playing = false; film.pause(); $("play").textContent = "▶"; }
  function play() {
    if (step >= episode.length) go(0);
    playing = true;
    $("play").textContent = "❚❚";
    film.playbackRate = Number($("speed").value);
    film.play().catch(pause);
    requestAnimationFrame(follow);
  }
  function follow() {
    if (!playing) return;
    go(Math.floor(film.currentTime * episode.fps * episode.stride + 0.01), false);
    step >= episode.length || film.ended ? pause() : requestAnimationFrame(follow);
  }
  const toggle = () => (playing ? pause() : play());
  $("play").onclick = toggle;
  $("back").onclick = () => { pause(); go(step - 1); };
  $("forth").onclick = () => { pause(); go(step + 1); };
  scrub.oninput = () => { pause(); go(Number(scrub.value)); };
  $("speed").onchange = () => { film.playbackRate = Number($("speed").value); };
  document.addEventListener("keydown", (event) => {
    if (["SELECT", "INPUT"].includes(event.target.tagName) && event.target !== scrub) return;
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -10, ArrowUp: 10 };
    if (event.key === " ") toggle();
    else if (event.key in moves) { pause(); go(step + moves[event.key]); }
    else if (event.key === "Home") { pause(); go(0); }
    else if (event.key === "End") { pause(); go(episode.length); }
    else return;
    event.preventDefault();
  });
  choose(0);
  return { go, play, pause, step: () => step, choose };
}

function live(policy) {
  $("live").hidden = false;
  const world = gymlab.worlds[policy.env], params = gymlab.defaults(world), canvas = $("arena"), pen = canvas.getContext("2d");
  let state = world.reset(), steps = 0, longest = 0, total = 0, running = true, over = 0, spent = 0, before = null, last = gymlab.decide(policy, world.observe(state));
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const begin = () => { longest = Math.max(longest, steps); state = world.reset(); steps = 0; total = 0; over = 0; };
  for (const [name, [start, low, high]] of Object.entries(world.sliders)) {
    const slide = make("input", { type: "range", min: low, max: high, step: (high - low) / 200, value: start, "aria-label": name });
    const told = make("b", {}, number(start));
    slide.oninput = () => { params[name] = Number(slide.value); told.textContent = number(params[name]); };
    $("sliders").append(make("label", { class: "slider" }, make("span", {}, name), slide, told));
  }
  function advance() {
    if (over) { if (++over > world.fps) begin(); return; }
    last = gymlab.decide(policy, world.observe(state));
    const result = world.step(state, last.action, params);
    state = result.state; steps += 1; total += result.reward;
    if (result.ended) { over = 1; longest = Math.max(longest, steps); }
  }
  function show() {
    facts($("live-now"), [["step", String(steps)], ["longest", String(Math.max(longest, steps))], ["return", number(total)], ["value", number(last.value)]]);
    bars($("live-bars"), last.probabilities
      ? last.probabilities.map((share, i) => ({ label: policy.labels[i] ?? String(i), share, text: `${(100 * share).toFixed(1)}%`, chosen: i === last.action }))
      : last.action.map((x, i) => { const span = policy.high[i] - policy.low[i], at = (x - policy.low[i]) / span; return { label: policy.labels[i] ?? "action", share: Math.abs(at - 0.5), from: Math.min(at, 0.5), text: number(x), chosen: true }; }));
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.lineCap = "round";
    paint(pen, policy.env, state, params, { ink: ink("--ink"), quiet: ink("--quiet"), bar: ink("--bar"), chosen: ink("--chosen"), track: ink("--track") });
    if (over) { pen.fillStyle = ink("--cursor"); pen.font = "bold 22px system-ui"; pen.fillText(`ended after ${steps} steps`, 20, 36); }
  }
  function tick(now) {
    if (before !== null && running) {
      spent = Math.min(spent + now - before, 250);
      for (; spent >= 1000 / world.fps; spent -= 1000 / world.fps) advance();
    }
    before = now;
    show();
    requestAnimationFrame(tick);
  }
  $("live-play").onclick = () => { running = !running; $("live-play").textContent = running ? "❚❚" : "▶"; };
  $("live-reset").onclick = begin;
  $("push-left").onclick = () => world.push(state, -1);
  $("push-right").onclick = () => world.push(state, 1);
  requestAnimationFrame(tick);
  return { steps: () => steps, state: () => state, params, simulate: (most, given) => gymlab.simulate(policy, most, given) };
}

function paint(pen, env, state, params, colour) {
  const wide = 640, tall = 400, stroke = (width, style, points) => {
    pen.lineWidth = width; pen.strokeStyle = style; pen.beginPath();
    points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.stroke();
  };
  const dot = (x, y, size, style) => { pen.fillStyle = style; pen.beginPath(); pen.arc(x, y, size, 0, 7); pen.fill(); };
  if (env.startsWith("CartPole")) {
    const x = wide / 2 + (state[0] / 2.4) * (wide / 2), y = 310, long = 2 * params["pole length"] * 140;
    stroke(1, colour.quiet, [[0, y + 16], [wide, y + 16]]);
    pen.fillStyle = colour.ink; pen.beginPath(); pen.roundRect(x - 32, y - 14, 64, 30, 5); pen.fill();
    stroke(12, colour.chosen, [[x, y - 12], [x + long * Math.sin(state[2]), y - 12 - long * Math.cos(state[2])]]);
    dot(x, y - 12, 5, colour.bar);
  } else if (env.startsWith("MountainCar")) {
    const place = (x) => [((x + 1.2) / 1.8) * wide, 350 - (Math.sin(3 * x) * 0.45 + 0.55) * 300];
    stroke(2, colour.quiet, Array.from({ length: 121 }, (_, i) => place(-1.2 + (1.8 * i) / 120)));
    const [fx, fy] = place(0.5), [x, y] = place(state[0]);
    stroke(3, colour.chosen, [[fx, fy], [fx, fy - 46]]);
    pen.fillStyle = colour.chosen; pen.beginPath(); pen.moveTo(fx, fy - 46); pen.lineTo(fx + 26, fy - 38); pen.lineTo(fx, fy - 30); pen.fill();
    dot(x, y - 13, 13, colour.bar);
  } else if (env.startsWith("Pendulum")) {
    const x = wide / 2 - 130 * Math.sin(state[0]), y = tall / 2 - 130 * Math.cos(state[0]);
    stroke(18, colour.chosen, [[wide / 2, tall / 2], [x, y]]);
    dot(wide / 2, tall / 2, 6, colour.ink);
  } else {
    const unit = 85, x0 = wide / 2, y0 = tall / 2 + 20, [a, b] = state;
    const x1 = x0 + unit * Math.sin(a), y1 = y0 + unit * Math.cos(a), x2 = x1 + unit * Math.sin(a + b), y2 = y1 + unit * Math.cos(a + b);
    stroke(1, colour.quiet, [[0, y0 - unit], [wide, y0 - unit]]);
    stroke(12, colour.bar, [[x0, y0], [x1, y1]]);
    stroke(12, colour.chosen, [[x1, y1], [x2, y2]]);
    dot(x0, y0, 6, colour.ink); dot(x1, y1, 6, colour.ink);
  }
}

const page = { replay: data.episodes.length ? replay(data.episodes) : null, live: data.live ? live(data.live) : null };
