#include "easydel/trainers/logs/report_page.h"

namespace easydel {

const std::string_view kReportPage = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{title}}</title>
<style>{{style}}</style>
</head>
<body>
<header>
<div><h1>{{title}}</h1><p>{{subtitle}}</p></div>
<form id="controls">
<label>Smoothing <input id="smoothing" type="range" min="0" max="0.99" step="0.01" value="0.6">
<output id="smoothing-value">0.60</output></label>
<label><input id="log-scale" type="checkbox"> Log scale</label>
<label>X axis <select id="axis"><option value="x">steps</option><option value="time">time</option><option value="tokens">tokens</option></select></label>
<button id="theme" type="button">Light / dark</button>
</form>
</header>
<section class="cards">{{cards}}</section>
<noscript><p class="empty">The curves need JavaScript; the tables do not.</p></noscript>
<main id="charts"></main>
<section id="samples" hidden></section>
<svg id="names" width="0" height="0" hidden></svg>
{{details}}
<section><h2>Config</h2>{{config}}</section>
<script type="application/json" id="data">{{data}}</script>
<script>{{script}}</script>
{{live}}</body>
</html>
)html";

const std::string_view kLiveScript = R"js(
"use strict";
{
  let version = 0;
  const state = document.createElement("p");
  state.id = "live";
  document.querySelector("header div").appendChild(state);
  async function ask() {
    try {
      // A chart that is being looked at stays.
      if (!document.querySelector("figure:hover")) {
        const answer = await fetch("data?version=" + version);
        if (answer.status === 200) {
          const given = await answer.json();
          version = given.version;
          document.querySelector(".cards").innerHTML = given.cards;
          document.getElementById("data").textContent = JSON.stringify({ runs: given.runs, series: given.series, samples: given.samples });
          start();
        }
      }
      state.textContent = "Live";
    } catch {
      state.textContent = "No connection";
    }
    setTimeout(ask, 1000);
  }
  ask();
}
)js";

const std::string_view kReportStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --surface: #ffffff; --ink: #16181d; --muted: #616876; --line: #e2e5ea; --grid: #eceef2;
  --train: #2563c9; --eval: #c2540a; --shadow: 0 1px 2px rgb(16 24 40 / 6%);
  --run-1: #0f8a5f; --run-2: #8b3fc7; --run-3: #a8741a; --run-4: #c02a5a;
}
@media (prefers-color-scheme: dark) {
  :root:not([data-theme="light"]) {
    --page: #0f1115; --surface: #181b21; --ink: #e7e9ee; --muted: #9aa1ae; --line: #2a2f38; --grid: #232830;
    --train: #7fabff; --eval: #f5a05a; --shadow: none;
    --run-1: #4fd1a1; --run-2: #c797f5; --run-3: #e3bd6b; --run-4: #f587a8;
  }
}
:root[data-theme="light"] { color-scheme: light; }
:root[data-theme="dark"] {
  color-scheme: dark;
  --page: #0f1115; --surface: #181b21; --ink: #e7e9ee; --muted: #9aa1ae; --line: #2a2f38; --grid: #232830;
  --train: #7fabff; --eval: #f5a05a; --shadow: none;
  --run-1: #4fd1a1; --run-2: #c797f5; --run-3: #e3bd6b; --run-4: #f587a8;
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 24px clamp(16px, 4vw, 48px) 64px; max-width: 1440px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
header { display: flex; flex-wrap: wrap; gap: 12px 32px; align-items: end; justify-content: space-between; }
h1 { margin: 0; font-size: 24px; line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin: 32px 0 12px; font-size: 17px; }
header p { margin: 2px 0 0; color: var(--muted); overflow-wrap: anywhere; }
form { display: flex; flex-wrap: wrap; gap: 8px 20px; align-items: center; color: var(--muted); font-size: 14px; }
label { display: inline-flex; gap: 8px; align-items: center; }
output { font-variant-numeric: tabular-nums; min-width: 2.5em; }
input { accent-color: var(--train); }
button, select {
  font: inherit; color: var(--ink); background: var(--surface); border: 1px solid var(--line); border-radius: 8px;
  padding: 5px 12px; cursor: pointer;
}
button:focus-visible, input:focus-visible, select:focus-visible { outline: 2px solid var(--train); outline-offset: 2px; }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0; }
.card {
  display: flex; flex-direction: column; padding: 10px 16px; background: var(--surface); box-shadow: var(--shadow);
  border: 1px solid var(--line); border-radius: 12px; min-width: 120px;
}
.card span { color: var(--muted); font-size: 13px; }
.card strong { font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); gap: 16px; }
figure {
  margin: 0; padding: 14px 14px 8px; background: var(--surface); border: 1px solid var(--line);
  border-radius: 12px; box-shadow: var(--shadow); position: relative; min-width: 0;
}
figcaption { display: flex; flex-wrap: wrap; gap: 4px 14px; align-items: baseline; font-weight: 600; }
figcaption span { font-weight: 400; font-size: 13px; color: var(--muted); }
figcaption i { display: inline-block; width: 14px; height: 3px; border-radius: 2px; margin-right: 6px; vertical-align: 3px; }
figure svg { display: block; width: 100%; height: 240px; touch-action: pan-y; }
.grid { stroke: var(--grid); } .cross { stroke: var(--muted); stroke-dasharray: 3 3; }
text { fill: var(--muted); font-size: 11px; font-variant-numeric: tabular-nums; }
path { fill: none; stroke-linejoin: round; stroke-linecap: round; }
.raw { stroke-width: 1; opacity: 0.28; } .smooth { stroke-width: 2; }
.train { stroke: var(--train); } .eval { stroke: var(--eval); }
.run-1 { stroke: var(--run-1); } .run-2 { stroke: var(--run-2); } .run-3 { stroke: var(--run-3); } .run-4 { stroke: var(--run-4); }
.eval.run-1, .eval.run-2, .eval.run-3, .eval.run-4 { stroke-dasharray: 5 4; }
.dot { fill: var(--surface); stroke-width: 2; }
.tip {
  position: absolute; pointer-events: none; background: var(--surface); border: 1px solid var(--line);
  border-radius: 8px; padding: 6px 10px; font-size: 13px; box-shadow: 0 4px 14px rgb(0 0 0 / 16%);
  white-space: nowrap; font-variant-numeric: tabular-nums; z-index: 1;
}
.tip b { font-weight: 600; }
table { border-collapse: collapse; width: 100%; background: var(--surface); border: 1px solid var(--line); font-size: 14px; }
th, td { text-align: left; padding: 5px 12px; border-top: 1px solid var(--grid); vertical-align: top; }
th { font-weight: 400; color: var(--muted); width: 1%; white-space: nowrap; }
td { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: 13px; overflow-wrap: anywhere; }
.empty { color: var(--muted); }
#samples td { white-space: pre-wrap; } #samples th { vertical-align: top; }
@media (max-width: 600px) { th { white-space: normal; width: 45%; } }
)css";

}  // namespace easydel
