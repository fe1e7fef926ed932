"use strict";
// Draws the frames of erpc top. It asks its own server for /frame.json once a second, and no other.

const every = 1000; // ms between two frames
const speakEvery = 15000; // ms between two sentences for screen readers
const byId = (id) => document.getElementById(id);

const digits = (v) =>
  v >= 99.95 || v === Math.trunc(v) ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v.toFixed(2);

const count = (v) => {
  for (const [from, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (v >= from * 0.9995) return digits(v / from) + " " + name;
  }
  return digits(v) + " ";
};

const micros = (v) => {
  if (v <= 0) return "–";
  if (v >= 1e6) return digits(v / 1e6) + " s";
  if (v >= 1e3) return digits(v / 1e3) + " ms";
  return digits(v) + " µs";
};

const perSecond = (v) => count(v).trimEnd() + "/s";
const bytes = (v) => count(v) + "B/s";
const bits = (v) => (v > 0 ? count(v) + "bit/s" : "–");

const charts = [
  { name: "Calls", show: perSecond, lines: [["ended", "Calls"], ["failed", "Failed"]] },
  { name: "Latency of calls", show: micros, lines: [["p50", "P50"], ["p99", "P99"]] },
  { name: "Round trips", show: micros, lines: [["p50", "RTT50"], ["p99", "RTT99"]] },
  { name: "Bytes", show: bytes, lines: [["received", "RX"], ["sent", "TX"]] },
  { name: "Congestion control allows", show: bits, lines: [["rate", "Rate"]] },
  { name: "Trouble", show: perSecond, lines: [["resent", "Resent"], ["dropped", "Lost"]] },
];

const tables = {
  loops: [
    ["Loop", (l) => l.Endpoint + (l.Number ? "/" + l.Number : "") + (l.Late ? " LATE" : "")],
    ["Calls", (l) => perSecond(l.Calls)], ["p50", (l) => micros(l.P50)], ["p99", (l) => micros(l.P99)],
    ["RTT", (l) => micros(l.RTT50)], ["In", (l) => bytes(l.RX)], ["Out", (l) => bytes(l.TX)],
    ["Sessions", (l) => l.Sessions], ["Limited", (l) => l.Limited + " of " + l.Active],
    ["Rate", (l) => bits(l.Rate)], ["In flight", (l) => l.InFlight], ["Queued", (l) => l.Queued],
    ["Resent", (l) => perSecond(l.Resent)], ["Dropped", (l) => perSecond(l.Dropped)],
    ["Blind", (l) => (100 * l.Blind).toFixed(1) + " %"],
  ],
  types: [
    ["Type", (t) => t.Name], ["Side", (t) => (t.Server ? "server" : "client")],
    ["Calls", (t) => perSecond(t.Calls)], ["Failed", (t) => perSecond(t.Failed)],
    ["p50", (t) => micros(t.P50)], ["p99", (t) => micros(t.P99)],
    ["Handler p50", (t) => micros(t.Handler50)], ["Handler p99", (t) => micros(t.Handler99)],
  ],
  sessions: [
    ["Peer", (s) => s.Peer], ["Number", (s) => s.Number],
    ["Side", (s) => (s.Client ? "client" : "server")], ["In flight", (s) => s.InFlight],
    ["Queued", (s) => s.Queued], ["Credits", (s) => (s.Client ? s.Credits + " of " + s.Most : "–")],
    ["RTT", (s) => micros(s.RTT)], ["RTO", (s) => micros(s.RTO)],
    ["Rate", (s) => bits(s.Rate) + (s.Limited ? " (limited)" : "")],
  ],
};

const element = (name, attributes = {}, ...children) => {
  const svg = ["svg", "polyline", "line"].includes(name);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
};

// makeChart adds an empty chart to the page.
const makeChart = (chart) => {
  chart.values = chart.lines.map((_, i) => element("span", { class: i ? "two" : "one" }));
  chart.pens = chart.lines.map((_, i) => element("polyline", { class: i ? "two" : "one" }));
  chart.svg = element("svg", { viewBox: "0 0 120 100", preserveAspectRatio: "none", role: "img" },
    element("line", { x1: 0, x2: 120, y1: 99, y2: 99 }), element("line", { x1: 0, x2: 120, y1: 1, y2: 1 }),
    ...chart.pens);
  chart.top = element("span", { class: "top" });
  byId("charts").append(element("figure", {},
    element("figcaption", {}, element("b", {}, chart.name), ...chart.values, chart.top), chart.svg));
};

const drawChart = (chart, trend) => {
  let most = 0;
  for (const [, field] of chart.lines) for (const p of trend) most = Math.max(most, p[field]);
  const said = [];
  chart.lines.forEach(([name, field], i) => {
    const from = 120 - trend.length + 1;
    const points = trend.map((p, k) => `${from + k},${(98 - (most ? p[field] / most : 0) * 96).toFixed(2)}`);
    chart.pens[i].setAttribute("points", points.join(" "));
    const now = trend.length ? chart.show(trend[trend.length - 1][field]) : "–";
    chart.values[i].textContent = name + " " + now;
    said.push(name + " " + now);
  });
  chart.top.textContent = "top " + chart.show(most);
  chart.svg.setAttribute("aria-label", `${chart.name}: ${said.join(", ")}; at most ${chart.show(most)}`);
};

const drawTable = (id, rows) => {
  const columns = tables[id];
  const table = byId(id);
  if (!table.tHead.rows.length) {
    table.tHead.append(element("tr", {}, ...columns.map(([name]) => element("th", { scope: "col" }, name))));
  }
  const body = table.tBodies[0];
  const all = rows || [];
  while (body.rows.length > all.length) body.deleteRow(-1);
  all.forEach((row, r) => {
    let tr = body.rows[r];
    if (!tr) {
      tr = element("tr", {}, ...columns.map((_, c) => element(c ? "td" : "th", c ? {} : { scope: "row" })));
      body.append(tr);
    }
    columns.forEach(([, show], c) => {
      const text = String(show(row));
      if (tr.cells[c].textContent !== text) tr.cells[c].textContent = text; // selections stay
    });
    tr.className = row.Late ? "late" : "";
  });
};

let paused = false;
let spoken = 0;
let rounds = 0;

const draw = (frame) => {
  byId("title").textContent = `${frame.Program}, process ${frame.PID}`;
  document.title = `${perSecond(frame.Total.Calls)} – ${frame.Program}`;
  byId("when").textContent = new Date(frame.At).toLocaleTimeString();
  for (const chart of charts) drawChart(chart, frame.Trend || []);
  for (const id of Object.keys(tables)) drawTable(id, frame[id[0].toUpperCase() + id.slice(1)]);
  if (Date.now() - spoken >= speakEvery) {
    spoken = Date.now();
    const t = frame.Total;
    byId("spoken").textContent = `${perSecond(t.Calls)} calls, p99 ${micros(t.P99)}, ` +
      `${perSecond(t.Failed)} failed, ${t.Sessions} sessions`;
  }
  document.documentElement.dataset.frames = (frame.Trend || []).length;
};

const problem = (text) => {
  const p = byId("problem");
  if (p.textContent !== text) p.textContent = text;
  p.hidden = !text;
};

const next = async () => {
  document.documentElement.dataset.rounds = ++rounds;
  if (!paused) {
    try {
      const answer = await fetch("frame.json", { signal: AbortSignal.timeout(10 * every) });
      const said = await answer.json();
      if (said.Frame && !paused) draw(said.Frame);
      problem(said.Error || "");
    } catch (_) {
      problem("erpc top does not answer.");
    }
  }
  setTimeout(next, every);
};

const pause = () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
};

const themes = ["system", "dark", "light"];
const setTheme = (name) => {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme").firstChild.textContent = `Theme: ${name} `;
  try { localStorage.setItem("theme", name); } catch (_) { /* it is not kept */ }
};
const theme = () => {
  const now = document.documentElement.dataset.theme || "system";
  setTheme(themes[(themes.indexOf(now) + 1) % themes.length]);
};

byId("pause").addEventListener("click", pause);
byId("theme").addEventListener("click", theme);
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "p") pause();
  if (e.key === "t") theme();
});
try {
  const kept = localStorage.getItem("theme");
  if (themes.includes(kept)) setTheme(kept);
} catch (_) { /* none was kept */ }
charts.forEach(makeChart);
next();
