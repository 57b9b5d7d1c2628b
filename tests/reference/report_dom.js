// Runs a report's script against a small stand-in for a browser's document and prints what it drew.
// usage: node report_dom.js REPORT.html
const fs = require("fs");
const vm = require("vm");

const page = fs.readFileSync(process.argv[2], "utf8");
const scripts = [...page.matchAll(/<script[^>]*>([^]*?)<\/script>/g)].map((match) => match[1]);

class Node {
  constructor(name) {
    Object.assign(this, { name, children: [], attributes: {}, style: {}, listeners: {}, dataset: {}, own: "" });
    Object.assign(this, { clientWidth: 600, clientHeight: 240, offsetWidth: 100, value: "0.6", checked: false });
    this.namespaceURI = "svg-space";
  }
  set textContent(text) { this.own = text; this.children = []; }
  get textContent() { return this.own + this.children.map((c) => (typeof c === "string" ? c : c.textContent)).join(""); }
  setAttribute(key, value) { this.attributes[key] = String(value); }
  appendChild(child) { this.children.push(child); }
  append(child) { this.children.push(child); }
  replaceChildren(...children) { this.children = children; }
  insertRow() { const row = new Node("tr"); this.children.push(row); return row; }
  insertCell() { const cell = new Node("td"); this.children.push(cell); return cell; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  getBoundingClientRect() { return { left: 0 }; }
  find(test) { return this.children.flatMap((c) => (typeof c === "string" ? [] : (test(c) ? [c] : []).concat(c.find(test)))); }
}

const byId = {};
const get = (id) => (byId[id] ??= new Node(id));
get("data").textContent = scripts[0];
get("axis").value = "x";
const document = {
  getElementById: get,
  createElement: (name) => new Node(name),
  createElementNS: (space, name) => { if (space !== "svg-space") throw Error("namespace"); return new Node(name); },
  documentElement: new Node("html"),
};
const context = vm.createContext({ document, ResizeObserver: class { observe() {} }, matchMedia: () => ({ matches: false }) });
vm.runInContext(scripts[1], context);

const figures = () => get("charts").find((n) => n.name === "figure");
const paths = (figure) => figure.find((n) => n.name === "path").map((n) => n.attributes.d);
const labels = (figure) => figure.find((n) => n.name === "text").map((n) => n.textContent);
const hover = (figure, x) => {
  figure.find((n) => n.name === "svg")[0].listeners.pointermove({ clientX: x });
  return figure.find((n) => n.className === "tip")[0].children.map((n) => n.textContent);
};
const result = figures().map((figure) => ({
  caption: figure.children[0].textContent,
  paths: paths(figure),
  labels: labels(figure),
  first: hover(figure, 0),
  last: hover(figure, 600),
}));
get("log-scale").checked = true;
get("log-scale").listeners.change();
figures().forEach((figure, i) => { result[i].log_paths = paths(figure); result[i].log_labels = labels(figure); });
get("smoothing").value = "0";
get("smoothing").listeners.input();
figures().forEach((figure, i) => { result[i].plain_paths = paths(figure); });
get("axis").value = "time";
get("axis").listeners.change();
figures().forEach((figure, i) => { result[i].time_labels = labels(figure); result[i].time_first = hover(figure, 0); });
get("theme").listeners.click();
const samples = get("samples").find((n) => n.name === "tr").map((row) => row.children.map((n) => n.textContent));
console.log(JSON.stringify({ charts: result, samples, theme: document.documentElement.dataset.theme,
                             durations: vm.runInContext("[0.25, 45, 200, 7500].map(duration)", context),
                             bytes: vm.runInContext("bytes(3435973837)", context),
                             smoothed: vm.runInContext("smooth([4, 2, null, 1], 0.5)", context),
                             ticks: vm.runInContext("ticks(0, 0.93, 5)", context) }));
