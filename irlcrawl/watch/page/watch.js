// The operator's page. What strangers wrote (URLs, hosts, reasons) only ever becomes text of a node: nothing here makes
// HTML of a string, and the server's policy (CSP) would run no script in it.
"use strict";

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const TOKEN = "irlcrawl-token";
const PAGE_MS = 2000, CHARTS_MS = 10000, AT_REST_MS = 15000;
let token = "", range = 3600, chartData = null, alive = true, pageTimer = 0, chartsTimer = 0;

function make(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("data-") || key.startsWith("aria-") || ["role", "scope", "tabindex"].includes(key)) node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

function draw(name, attributes = {}, text = "") {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.textContent = text;
  return node;
}

// Replace the children only where something differs, so that a selection, a scroll or the focus stays.
function fill(node, told, children) {
  const text = JSON.stringify(told);
  if (node.dataset.told === text) return;
  node.dataset.told = text;
  node.replaceChildren(...children());
}

// -- numbers -----------------------------------------------------------------------------------------------------------

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function number(value) {
  const size = Math.abs(value);
  for (const [unit, from] of [["G", 1e9], ["M", 1e6], ["k", 1e4]]) {
    if (size >= from) return short(value / (unit === "k" ? 1e3 : from)) + " " + unit;
  }
  return size >= 10 || Number.isInteger(value) ? whole.format(value) : short(value);
}

function short(value) {
  return Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? String(+value.toFixed(1)) : String(+value.toFixed(2));
}

function bytes(value) {
  for (const [unit, from] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (Math.abs(value) >= from) return short(value / from) + " " + unit;
  }
  return whole.format(value) + " B";
}

function told(chart, value) {
  if (value === null || value === undefined) return "–";
  return (chart.kind === "bytes" ? bytes(value) : number(value)) + (chart.rate ? "/s" : "");
}

function clock(seconds, span) {
  const date = new Date(seconds * 1000);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: span <= 3600 ? "2-digit" : undefined, hour12: false });
  return span <= 86400 ? time : span <= 604800 * 4 ? date.toLocaleDateString([], { month: "short", day: "numeric" }) + " " + time
    : date.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" });
}

function took(seconds) {
  return seconds === null ? "" : seconds < 1 ? Math.round(seconds * 1000) + " ms" : short(seconds) + " s";
}

// -- asking ------------------------------------------------------------------------------------------------------------

class Locked extends Error {}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.Authorization = "Bearer " + token;
  const answer = await fetch(path, { ...options, headers, credentials: "omit" });
  const said = await answer.json().catch(() => ({ error: answer.statusText }));
  if (answer.status === 401) throw new Locked(said.error);
  if (!answer.ok) throw new Error(said.error);
  return said;
}

function trouble(error) {
  const locked = error instanceof Locked;
  if (locked && token) forget();
  if (locked) $("key").hidden = false;
  $("trouble").hidden = !error || locked;
  if (error) $("trouble").textContent = error instanceof TypeError ? "irlcrawl watch does not answer: it was stopped, or cannot be reached." : error.message;
}

function remember(given) {
  token = given;
  sessionStorage.setItem(TOKEN, given);
  $("key").hidden = true;
  look();
  lookBack();
}

function forget() {
  token = "";
  sessionStorage.removeItem(TOKEN);
}

// -- the page ----------------------------------------------------------------------------------------------------------

async function look() {
  clearTimeout(pageTimer);
  try {
    show(await ask("/api/page"));
    trouble(null);
  } catch (error) {
    trouble(error);
  }
  pageTimer = setTimeout(look, alive ? PAGE_MS : AT_REST_MS);
}

const MOODS = { running: "good", paused: "warn", renewing: "warn", stopping: "warn", busy: "warn", done: "", killed: "bad",
  failed: "bad", damaged: "bad", "disk full": "bad" };

function show(page) {
  alive = page.alive;
  document.title = `${page.state} · ${page.name}`;
  $("name").textContent = page.name;
  if ($("state").textContent !== page.state) $("state").textContent = page.state;
  $("state").dataset.mood = MOODS[page.state] ?? "";
  $("told").textContent = page.told.slice(page.state.length).replace(/^, /, "");
  $("clock").textContent = page.updated ? `Counted at ${clock(page.updated, 3600)}.` : "";
  fill($("tiles"), page.tiles, () => page.tiles.map(tile));
  showPanels(page.panels);
  fill($("recent"), page.recent, () => page.recent.length ? page.recent.map(recent) : [make("tr", {}, make("td", { colSpan: 5 }, "No URL yet."))]);
  showSteering(page);
}

function tile(row) {
  return make("div", {}, make("dt", {}, row.label), make("dd", { className: "large" }, row.text), make("dd", { className: "quiet" }, row.note));
}

function showPanels(panels) {
  const holder = $("panels");
  const there = new Map([...holder.children].map((node) => [node.dataset.key, node]));
  const nodes = panels.map((panel) => {
    const node = there.get(panel.key) ?? make("article", { className: "card", "data-key": panel.key });
    fill(node, panel, () => [make("h3", {}, panel.title), panel.rows.length ? make("dl", { className: "rows" }, ...panel.rows.map(row)) : make("p", { className: "quiet" }, panel.empty)]);
    return node;
  });
  if (nodes.length !== holder.children.length || nodes.some((node, at) => holder.children[at] !== node)) holder.replaceChildren(...nodes);
}

function row(told) {
  const node = make("div", {}, make("dt", {}, told.label), make("dd", {}, told.text));
  if (told.share !== null) {
    const share = make("i");
    share.style.width = Math.max(told.share * 100, 0.5) + "%";
    node.append(make("dd", { className: "meter", "aria-hidden": "true" }, share));
  }
  if (told.note) node.append(make("dd", { className: "note" }, told.note));
  return node;
}

function recent(line) {
  const bad = line.outcome === "failed" || line.outcome === "retry" || line.status >= 400;
  const mood = bad ? "bad" : line.outcome === "excluded" ? "left" : "";
  const result = (line.status > 0 ? line.status + " " : "") + (line.outcome === "retry" ? "to be repeated: " : "") + line.reason;
  return make("tr", {}, make("td", {}, clock(line.time, 3600)), make("td", { className: mood }, result),
    make("td", { className: "number" }, line.bytes === null ? "" : bytes(line.bytes)),
    make("td", { className: "number" }, took(line.seconds)), make("td", { className: "url" }, line.url));
}

// -- charts ------------------------------------------------------------------------------------------------------------

const LEFT = 54, BOTTOM = 18, TOP = 6;

async function lookBack() {
  clearTimeout(chartsTimer);
  try {
    chartData = await ask("/api/charts?seconds=" + range);
    showCharts();
  } catch (error) {
    trouble(error);
  }
  chartsTimer = setTimeout(lookBack, alive ? CHARTS_MS : 4 * AT_REST_MS);
}

function showCharts() {
  if (!chartData) return;
  const holder = $("charts");
  if (holder.children.length !== chartData.charts.length) holder.replaceChildren(...chartData.charts.map(chartCard));
  chartData.charts.forEach((chart, at) => drawChart(holder.children[at], chart));
}

function chartCard(chart) {
  const svg = draw("svg", { role: "img", tabindex: "0" });
  const card = make("article", { className: "card chart" }, make("div", { className: "head" },
    make("h3", {}, chart.title), make("span", { className: "read" })), svg);
  const at = (event) => (event.clientX - svg.getBoundingClientRect().left);
  svg.addEventListener("pointermove", (event) => point(card, nearest(card, at(event))));
  svg.addEventListener("pointerleave", () => point(card, null));
  svg.addEventListener("blur", () => point(card, null));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -1e9, End: 1e9 }[event.key];
    if (!step || !chartData.times.length) return;
    event.preventDefault();
    const last = chartData.times.length - 1;
    const from = card.pointed ?? (step > 0 ? -1 : last + 1);
    point(card, Math.min(Math.max(from + step, 0), last));
  });
  return card;
}

function niceMost(value) {
  if (!(value > 0)) return 1;
  const ten = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((by) => by * ten).find((most) => most >= value);
}

function place(card) {
  const svg = card.querySelector("svg"), width = Math.max(svg.clientWidth, 120), height = Math.max(svg.clientHeight, 60);
  const { since, until } = chartData;
  const x = (time) => LEFT + (time - since) / (until - since) * (width - LEFT - 6);
  const y = (value) => height - BOTTOM - value / card.most * (height - BOTTOM - TOP);
  return { width, height, x, y };
}

function drawChart(card, chart) {
  card.chart = chart;
  const known = chart.values.filter((value) => value !== null);
  card.most = niceMost(Math.max(...known, 0));
  const svg = card.querySelector("svg"), { width, height, x, y } = place(card);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const nodes = [0, 0.5, 1].flatMap((share) => [
    draw("line", { class: "grid", x1: LEFT, x2: width - 6, y1: y(card.most * share), y2: y(card.most * share) }),
    draw("text", { x: LEFT - 6, y: y(card.most * share) + 4, "text-anchor": "end" }, told(chart, card.most * share)),
  ]);
  const { since, until } = chartData;
  for (const [share, anchor] of [[0, "start"], [1, "end"]]) {
    const time = since + (until - since) * share;
    nodes.push(draw("text", { x: x(time), y: height - 3, "text-anchor": anchor }, clock(time, range > 3600 ? range : 86400)));
  }
  for (const piece of pieces(chart)) {
    const points = piece.map(([time, value]) => `${x(time).toFixed(1)},${y(value).toFixed(1)}`);
    const [first, last] = [x(piece[0][0]).toFixed(1), x(piece[piece.length - 1][0]).toFixed(1)];
    nodes.push(draw("path", { class: "area", d: `M${first},${y(0)}L${points.join("L")}L${last},${y(0)}Z` }));
    nodes.push(draw("path", { class: "line", d: "M" + points.join("L") + (piece.length === 1 ? "h1" : "") }));
  }
  const cross = draw("g", { class: "pointer" });
  svg.replaceChildren(...nodes, cross);
  const last = known.length ? known[known.length - 1] : null;
  svg.setAttribute("aria-label", known.length
    ? `${chart.title}: ${told(chart, last)} last, ${told(chart, Math.min(...known))} to ${told(chart, Math.max(...known))} since ${clock(since, 604800)}. Arrow keys read single values.`
    : `${chart.title}: no samples since ${clock(since, 604800)}.`);
  point(card, card.pointed ?? null);
}

// Runs of known values; a gap in which the crawl did not run is a gap of the line.
function pieces(chart) {
  const found = [];
  let piece = [], before = null;
  chart.values.forEach((value, at) => {
    const time = chartData.times[at];
    if (piece.length && (value === null || time - before > 3 * chartData.step)) {
      found.push(piece);
      piece = [];
    }
    if (value !== null) piece.push([time, value]);
    before = time;
  });
  return piece.length ? [...found, piece] : found;
}

function nearest(card, pixels) {
  if (!chartData.times.length) return null;
  const { x } = place(card);
  let best = 0;
  chartData.times.forEach((time, at) => {
    if (Math.abs(x(time) - pixels) < Math.abs(x(chartData.times[best]) - pixels)) best = at;
  });
  return best;
}

function point(card, at) {
  card.pointed = at;
  const { chart } = card, group = card.querySelector(".pointer"), read = card.querySelector(".read");
  const value = at === null ? null : chart.values[at] ?? null;
  group.replaceChildren();
  if (at === null || at >= chartData.times.length) {
    const known = chart.values.filter((one) => one !== null);
    read.textContent = known.length ? told(chart, known[known.length - 1]) : "no samples yet";
    read.removeAttribute("role");
    return;
  }
  const { height, x, y } = place(card), time = chartData.times[at];
  group.append(draw("line", { class: "cross", x1: x(time), x2: x(time), y1: TOP, y2: height - BOTTOM }));
  if (value !== null) group.append(draw("circle", { class: "dot", cx: x(time), cy: y(value), r: 3.5 }));
  read.setAttribute("role", "status");
  read.textContent = `${told(chart, value)} at ${clock(time, range)}`;
}

// -- steering ----------------------------------------------------------------------------------------------------------

const LINES = "one a line";
const VERBS = {
  why: ["Why: where a URL, a host or a site stands", "a URL, a host or a site"],
  slow: ["Why not faster: what bounds the crawl, and the key that would change it", "takes nothing"],
  report: ["Report: sites by reputation, budget, cost and yield", "nothing; of a large crawl it takes a while"],
  seeds: ["Add seeds", `URLs, ${LINES}`],
  block: ["Block hosts or patterns", `hosts or sites, ${LINES}; pattern:RE2 for URLs`],
  unblock: ["Unblock", `hosts, sites or pattern:RE2, ${LINES}`],
  pause: ["Pause hosts or sites", `hosts or sites, ${LINES}; nothing: the whole crawl`],
  unpause: ["End a pause", `hosts or sites, ${LINES}; nothing: the whole crawl`],
  prefer: ["Prefer a host or a URL", "a host or a URL; its weight: so many links nearer to a seed, below 0 behind"],
  retry: ["Retry what failed", `reason=timeout, status=5xx or host=example.org, ${LINES}`],
  set: ["Set a key", `section.key=value, ${LINES}`],
};

const ALONE = ["slow", "report"];
const GRAVE = {
  stop: () => "Stop the crawl? It ends cleanly, and `irlcrawl resume` goes on with it.",
  block: (names) => `Block ${names.join(", ")}? URLs of it that wait are excluded.`,
};

function showSteering(page) {
  $("deed").disabled = !page.may_steer;
  $("locked").hidden = page.may_steer;
  const paused = page.paused.map((one) => (one.name === "*" ? "the whole crawl" : one.name) + (one.by ? ` by ${one.by}` : "")
    + (one.since ? ` since ${clock(one.since, 604800)}` : ""));
  $("paused").hidden = !paused.length;
  $("paused").textContent = "Paused: " + paused.join("; ");
  fill($("steered"), page.steered, () => page.steered.length ? page.steered.map((one) => make("li", {},
    make("div", { className: "quiet" }, `${one.time.replace("T", " ").replace("Z", " UTC")} · ${one.by}`),
    make("div", {}, make("strong", {}, one.verb + " "), make("code", {}, one.arguments === "[]" ? "" : one.arguments)), make("div", {}, one.result)))
    : [make("li", { className: "quiet" }, "Nobody did so far.")]);
}

function sure(text) {
  $("sure-text").textContent = text;
  $("sure").returnValue = "";
  $("sure").showModal();
  return new Promise((resolve) => $("sure").addEventListener("close", () => resolve($("sure").returnValue === "yes"), { once: true }));
}

async function act(verb, names, text) {
  if (GRAVE[verb] && !await sure(GRAVE[verb](names))) return;
  const said = $("said");
  said.hidden = false;
  said.textContent = "…";
  $("do").disabled = true;
  try {
    const answer = await ask("/api/do", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ verb, arguments: names, text }),
    });
    said.textContent = answer.said || (answer.code ? `ended with exit code ${answer.code}` : "done");
    said.classList.toggle("bad", answer.code !== 0);
  } catch (error) {
    said.textContent = error.message;
    said.classList.add("bad");
    if (error instanceof Locked) trouble(error);
  }
  $("do").disabled = false;
  look();
}

function chosen() {
  const verb = $("verb").value;
  $("hint").textContent = VERBS[verb][1];
  $("weight-label").hidden = verb !== "prefer";
  $("what").hidden = $("what-label").hidden = ALONE.includes(verb);
}

function ready() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) history.replaceState(null, "", location.pathname);
  token = given || sessionStorage.getItem(TOKEN) || "";
  if (given) sessionStorage.setItem(TOKEN, given);
  $("verb").replaceChildren(...Object.entries(VERBS).map(([verb, [text]]) => make("option", { value: verb }, text)));
  chosen();
  $("verb").addEventListener("change", chosen);
  $("steer").addEventListener("submit", (event) => {
    event.preventDefault();
    const verb = $("verb").value, text = $("what").value;
    const names = ALONE.includes(verb) ? [] : text.split("\n").map((line) => line.trim()).filter(Boolean);
    if (verb === "prefer") names.push($("weight").value);
    act(verb, verb === "seeds" ? [] : names, verb === "seeds" ? text : undefined);
  });
  for (const button of document.querySelectorAll("[data-verb]")) button.addEventListener("click", () => act(button.dataset.verb, []));
  $("key").addEventListener("submit", (event) => {
    event.preventDefault();
    remember($("token").value.trim());
    $("token").value = "";
  });
  $("unlock").addEventListener("click", () => {
    $("key").hidden = false;
    $("token").focus();
  });
  $("range").addEventListener("change", (event) => {
    range = Number(event.target.value);
    lookBack();
  });
  new ResizeObserver(showCharts).observe($("charts"));
  look();
  lookBack();
}

ready();
