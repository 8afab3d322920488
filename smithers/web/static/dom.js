// Elements, made of text and never of markup: what stands in the database is shown, not run.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. `on…` are listeners, `class` and other names attributes, null is left out. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Make an element of a drawing. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Put other children in the place of those there are, unless they are the same ones. */
export function replace(element, ...children) {
  const wanted = children.flat(Infinity).filter((child) => child !== null && child !== undefined);
  const same =
    wanted.length === element.childNodes.length &&
    wanted.every((child, place) => child === element.childNodes[place]);
  if (!same) {
    element.replaceChildren();
    append(element, wanted);
  }
  return element;
}

/**
 * Render each item once: an item that a change has left alone is the same object as before, and
 * keeps its element, with the focus and the folds in it.
 */
export function keyed(render) {
  let before = new Map();
  return (items) => {
    const now = new Map();
    for (const item of items) now.set(item, before.get(item) ?? render(item));
    before = now;
    return [...now.values()];
  };
}

const LOCAL = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric",
  hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const LOCAL_TIME = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit",
});

/** Show an instant as the reader's own time, in UTC on hover. */
export function time(iso, { short = false } = {}) {
  if (!iso) return h("span", { class: "none" }, "–");
  const at = new Date(iso);
  const today = new Date().toDateString() === at.toDateString();
  const text = short || today ? LOCAL_TIME.format(at) : LOCAL.format(at);
  return h("time", { datetime: iso, title: `${iso.replace("T", " ").replace(/Z|\+00:00$/, "")} UTC` }, text);
}

/** Write a length of time: `820 ms`, `3.4 s`, `12 min 5 s`, `2 h 3 min`, `4 d 1 h`. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.floor(s)} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(s % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Show how long something took, or takes by now; the clock of the page moves those on. */
export function elapsed(record) {
  if (record.status !== "running") return h("span", {}, duration(record.duration_ms));
  const since = Date.parse(record.started_at);
  return h("span", { "data-since": since }, duration(Math.max(0, Date.now() - since)));
}

/** Move on what runs; called once a second. */
export function tick(root) {
  for (const element of root.querySelectorAll("[data-since]")) {
    element.textContent = duration(Math.max(0, Date.now() - Number(element.dataset.since)));
  }
}

const NUMBER = new Intl.NumberFormat();
export const count = (value) => NUMBER.format(value ?? 0);
export const dollars = (value) => `$${(value ?? 0).toFixed(value && value < 0.1 ? 4 : 2)}`;

/** Show a status in words, its colour being only an addition. */
export function status(text, { dead = false } = {}) {
  const shown = dead ? "dead" : text;
  return h("span", { class: "status", "data-status": shown }, shown);
}

/** Show a text in as many lines as it has, long ones folded. */
export function text(value, { label = "text", lines = 12 } = {}) {
  const whole = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const few = whole.length > 2000 || whole.split("\n").length > lines;
  const shown = h("pre", {}, whole);
  if (!few) return shown;
  return h("details", {}, h("summary", {}, `${label}, ${count(whole.length)} characters`), shown);
}

/** Show what went wrong by its last line, which says it, and the rest on demand. */
export function failure(value) {
  const whole = value.trimEnd();
  const said = whole.split("\n").pop();
  if (said === whole) return text(whole, { label: "error" });
  return h("details", {}, h("summary", {}, said), h("pre", {}, whole));
}

/** Show JSON as a tree that folds; `open` levels are unfolded. */
export function json(value, { open = 1 } = {}) {
  if (value === null || typeof value !== "object") {
    const kind = value === null ? "null" : typeof value;
    const written = JSON.stringify(value);
    if (kind === "string" && written.length > 300) return text(value, { label: "text", lines: 6 });
    return h("span", { class: `json ${kind}` }, written);
  }
  const entries = Array.isArray(value)
    ? value.map((item, place) => [place, item])
    : Object.entries(value);
  const [before, after] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (!entries.length) return h("span", { class: "json" }, before + after);
  const short = JSON.stringify(value);
  const body = h("div", { class: "json-body" });
  const fill = () => {
    if (body.childNodes.length) return;
    for (const [name, item] of entries.slice(0, MOST)) {
      body.append(h("div", {}, h("span", { class: "json-key" }, `${name}: `), json(item, { open: open - 1 })));
    }
    if (entries.length > MOST) body.append(h("div", { class: "none" }, `and ${count(entries.length - MOST)} more`));
  };
  const unfolded = open > 0 && entries.length <= 20;
  if (unfolded) fill();
  return h(
    "details",
    { class: "json", open: unfolded, ontoggle: fill },
    h("summary", {}, short.length > 60 ? `${before} ${count(entries.length)} ${after}` : short),
    body,
  );
}

const MOST = 1000;

/** Say what there would be to see, and what to do so that there is. */
export function empty(what, todo, command = null) {
  return h("div", { class: "empty" }, h("p", {}, what), h("p", {}, todo), command && h("pre", {}, command));
}

/** Make a table head. */
export function head(...names) {
  return h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name))));
}
