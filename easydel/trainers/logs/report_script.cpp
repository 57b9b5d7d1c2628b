#include "easydel/trainers/logs/report_page.h"

namespace easydel {

const std::string_view kReportScript = R"js(
"use strict";
// A running mean that starts without bias; gaps stay gaps.
function smooth(values, weight) {
  let mean = 0, total = 0;
  return values.map((v) => {
    if (v === null) return null;
    mean = mean * weight + v * (1 - weight);
    total = total * weight + (1 - weight);
    return mean / total;
  });
}

// Round numbers between low and high: 1, 2 or 5 times a power of ten.
function ticks(low, high, count) {
  const rough = (high - low) / count;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((m) => m * power >= rough) * power;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && found.length < 50; ++i) found.push(i * step);
  return found;
}

function logTicks(low, high) {
  const found = [];
  const first = Math.floor(low), last = Math.ceil(high), every = Math.max(1, Math.ceil((last - first) / 6));
  const multiples = last - first <= 2 ? [1, 2, 5] : [1];
  for (let e = first; e <= last; e += every) {
    for (const m of multiples) {
      const at = e + Math.log10(m);
      if (at >= low - 1e-9 && at <= high + 1e-9) found.push(at);
    }
  }
  return found.length ? found : [low, high];
}

// 45 s, 3:20, 2:05:00
function duration(seconds) {
  const whole = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  if (whole < 60) return String(Number(seconds.toPrecision(3))) + " s";
  const minutes = Math.floor(whole / 60), rest = two(whole % 60);
  return minutes < 60 ? minutes + ":" + rest : Math.floor(minutes / 60) + ":" + two(minutes % 60) + ":" + rest;
}

// Ticks of a time axis: whole seconds, minutes or hours.
function timeTicks(low, high, count) {
  const units = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  const step = units.find((u) => (high - low) / u <= count);
  if (high - low < count || !step) return ticks(low, high, count);
  const found = [];
  for (let t = Math.ceil(low / step) * step; t <= high; t += step) found.push(t);
  return found;
}

const isBytes = (name) => name.endsWith("_bytes") || name === "memory_max";

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; Math.abs(value) >= 1024 && i < 4; ++i) value /= 1024;
  return String(Number(value.toPrecision(3))) + " " + units[i];
}

function show(value) {
  if (value === null || value === undefined) return "not finite";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return String(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return Number(value.toPrecision(4)).toExponential();
  return String(Number(value.toPrecision(5)));
}

// The position in sorted steps that is nearest to x.
function nearest(steps, x) {
  let low = 0, high = steps.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < x) low = middle + 1; else high = middle;
  }
  return low > 0 && x - steps[low - 1] <= steps[low] - x ? low - 1 : low;
}

function toPath(xs, ys, mapX, mapY) {
  let path = "", pen = false;
  for (let i = 0; i < xs.length; ++i) {
    const y = ys[i] === null ? NaN : mapY(ys[i]);
    if (!Number.isFinite(y)) { pen = false; continue; }
    const alone = !pen && (i + 1 === xs.length || ys[i + 1] === null);
    path += (pen ? "L" : "M") + mapX(xs[i]).toFixed(1) + " " + y.toFixed(1) + (alone ? "h0" : "");
    pen = true;
  }
  return path;
}

let redrawAll = null;  // draws the charts of the data that is shown

function start() {
  const { runs, series: all, samples } = JSON.parse(document.getElementById("data").textContent);
  showSamples(samples);
  const axis = document.getElementById("axis");
  const space = document.getElementById("names").namespaceURI;
  const smoothing = document.getElementById("smoothing");
  const logScale = document.getElementById("log-scale");
  const charts = new Map();
  const smooths = (s) => s.kind !== "eval" && s.chart !== "learning_rate" && !isBytes(s.chart);
  if (!redrawAll && all.some((s) => s.x.length > 500)) smoothing.value = "0.9";
  document.getElementById("charts").replaceChildren();
  for (const s of all) {
    if (runs.length > 1) s.name = runs[s.run] + ": " + s.name;
    s.style = s.kind + (s.run > 0 ? " run-" + (((s.run - 1) % 4) + 1) : "");
    s.color = s.run > 0 ? "--run-" + (((s.run - 1) % 4) + 1) : "--" + s.kind;
    if (!charts.has(s.chart)) charts.set(s.chart, []);
    charts.get(s.chart).push(s);
  }

  function element(name, attributes, parent) {
    const made = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.appendChild(made);
    return made;
  }
  function html(name, parent, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    parent.appendChild(made);
    return made;
  }

  function makeChart(title, series) {
    const figure = html("figure", document.getElementById("charts"));
    const caption = html("figcaption", figure, title.replace(/_bytes$/, "").replaceAll("_", " "));
    const svg = element("svg", { role: "img", "aria-label": title }, figure);
    const tip = html("div", figure, undefined, "tip");
    tip.hidden = true;
    for (const s of series) {
      const key = html("span", caption);
      const mark = html("i", key);
      mark.style.background = "var(" + s.color + ")";
      key.append(s.name);
    }
    let scale = null;
    const format = isBytes(title) ? (v) => (v === null ? show(v) : bytes(v)) : show;

    function draw() {
      svg.replaceChildren();
      const over = series.every((s) => s[axis.value]) ? axis.value : "x";
      const width = svg.clientWidth || 420, height = svg.clientHeight || 240;
      const box = { left: 56, right: width - 14, top: 10, bottom: height - 24 };
      const weight = Number(smoothing.value);
      const lines = series.map((s) => ({ ...s, x: s[over], steps: s.x, line: smooths(s) && weight > 0 ? smooth(s.mean || s.y, weight) : s.y }));
      const logs = logScale.checked;
      const toY = (v) => (logs ? Math.log10(v) : v);
      const xs = lines.flatMap((s) => [s.x[0], s.x[s.x.length - 1]]);
      let ys = lines.flatMap((s) => s.y.concat(s.line)).filter((v) => v !== null).map(toY).filter(Number.isFinite);
      if (!ys.length) ys = [0, 1];
      let x0 = Math.min(...xs), x1 = Math.max(...xs);
      let y0 = ys.reduce((a, b) => Math.min(a, b)), y1 = ys.reduce((a, b) => Math.max(a, b));
      if (x0 === x1) { x0 -= 1; x1 += 1; }
      const pad = (y1 - y0) * 0.06 || Math.abs(y0) * 0.1 || 1;
      y0 -= pad; y1 += pad;
      const mapX = (x) => box.left + ((x - x0) / (x1 - x0)) * (box.right - box.left);
      const mapT = (t) => box.bottom - ((t - y0) / (y1 - y0)) * (box.bottom - box.top);
      const mapY = (y) => mapT(toY(y));
      for (const t of logs ? logTicks(y0, y1) : ticks(y0, y1, 5)) {
        element("line", { class: "grid", x1: box.left, x2: box.right, y1: mapT(t), y2: mapT(t) }, svg);
        element("text", { x: box.left - 8, y: mapT(t) + 4, "text-anchor": "end" }, svg).textContent =
          format(logs ? 10 ** t : t);
      }
      const count = Math.max(2, Math.floor(width / 90));
      for (const t of over === "time" ? timeTicks(x0, x1, count) : ticks(x0, x1, count)) {
        const anchor = mapX(t) > width - 28 ? "end" : "middle";
        element("text", { x: anchor === "end" ? width - 4 : mapX(t), y: height - 6, "text-anchor": anchor }, svg)
          .textContent = over === "time" ? duration(t) : show(t);
      }
      for (const s of lines) {
        if (smooths(s) && weight > 0) {
          element("path", { class: "raw " + s.style, d: toPath(s.x, s.y, mapX, mapY) }, svg);
        }
        element("path", { class: "smooth " + s.style, d: toPath(s.x, s.line, mapX, mapY) }, svg);
      }
      scale = { box, x0, x1, mapX, mapY, lines, over, marks: element("g", {}, svg) };
    }

    svg.addEventListener("pointermove", (event) => {
      const { box, x0, x1, mapX, mapY, lines, over, marks } = scale;
      const at = event.clientX - svg.getBoundingClientRect().left;
      const x = x0 + ((at - box.left) / (box.right - box.left)) * (x1 - x0);
      marks.replaceChildren();
      tip.replaceChildren();
      let step = null, name = null;
      for (const s of lines) {  // the series with a point nearest to the pointer says which place it is
        const i = nearest(s.x, x);
        if (step !== null && Math.abs(s.x[i] - x) >= Math.abs(step - x)) continue;
        step = s.x[i];
        name = "step " + s.steps[i] + (over === "time" ? ", " + duration(step) : over === "tokens" ? ", " + show(step) + " tokens" : "");
      }
      html("b", html("div", tip), name);
      element("line", { class: "cross", x1: mapX(step), x2: mapX(step), y1: box.top, y2: box.bottom }, marks);
      for (const s of lines) {
        const i = nearest(s.x, step);
        if (s.x[i] !== step && s.kind !== "eval" && runs.length === 1) continue;
        const same = s.line[i] === s.y[i];
        const where = s.x[i] === step ? "" : " (step " + s.steps[i] + ")";
        html("div", tip, s.name + where + ": " + format(s.y[i]) + (same ? "" : ", smoothed " + format(s.line[i])));
        const y = s.line[i] === null ? NaN : mapY(s.line[i]);
        if (Number.isFinite(y)) element("circle", { class: "dot " + s.style, cx: mapX(s.x[i]), cy: y, r: 4 }, marks);
      }
      tip.hidden = false;
      const left = 14;  // the figure's padding
      const room = figure.clientWidth - tip.offsetWidth - 8;
      const place = mapX(step) + left + 12;
      tip.style.left = Math.max(8, place > room ? mapX(step) + left - tip.offsetWidth - 12 : place) + "px";
      tip.style.top = "48px";
    });
    svg.addEventListener("pointerleave", () => {
      tip.hidden = true;
      scale.marks.replaceChildren();
    });
    new ResizeObserver(draw).observe(svg);
    return draw;
  }

  const draws = [...charts].map(([title, series]) => makeChart(title, series));
  if (!draws.length) html("p", document.getElementById("charts"), "No metrics were written.", "empty");
  const redraw = () => {
    document.getElementById("smoothing-value").textContent = Number(smoothing.value).toFixed(2);
    for (const draw of draws) draw();
  };
  const isFirst = !redrawAll;
  redrawAll = redraw;
  redraw();
  if (!isFirst) return;
  smoothing.addEventListener("input", () => redrawAll());
  logScale.addEventListener("change", () => redrawAll());
  axis.addEventListener("change", () => redrawAll());
  document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
}

// What the model wrote, each with its reward where it has one.
function showSamples(lines) {
  const samples = document.getElementById("samples");
  samples.hidden = !lines.length;
  const heading = document.createElement("h2"), table = document.createElement("table");
  heading.textContent = "Samples";
  for (const line of lines) {
    const row = table.insertRow();
    const head = document.createElement("th");
    head.textContent = "step " + line.step;
    row.appendChild(head);
    const reward = typeof line.reward === "number" ? show(line.reward) : "";
    for (const text of [line.prompt, line.completion, reward]) row.insertCell().textContent = text;
  }
  samples.replaceChildren(heading, table);
}
if (typeof document !== "undefined") start();
)js";

}  // namespace easydel
