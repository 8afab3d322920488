// The frame around the pages: which one is shown, what it follows, and how the connection is.

import { h, tick } from "./dom.js";
import { Stream } from "./stream.js";
import approvals from "./pages/approvals.js";
import execution from "./pages/execution.js";
import memories from "./pages/memories.js";
import overview from "./pages/overview.js";
import sql from "./pages/sql.js";
import state from "./pages/state.js";
import triggers from "./pages/triggers.js";
import vcs from "./pages/vcs.js";

const PAGES = { overview, execution, state, memories, vcs, triggers, approvals, sql };
const LISTED = ["overview", "state", "memories", "vcs", "triggers", "approvals", "sql"];

const element = (id) => document.getElementById(id);
const main = element("main");
const banner = element("banner");

const context = { allowWrite: false, token: null, go, follow, ask, post };
let page = null;
let route = null;
let gone = null;
let waiting = 0; // gates that wait for an answer, counted in the list of pages

const stream = new Stream({
  show(topic, items) {
    const began = performance.now();
    if (topic === "approvals") countGates(items);
    page?.show?.(topic, items);
    // What one change of the database costs this page, for whoever measures it.
    performance.measure("smithers-change", { start: began, end: performance.now() });
  },
  failed(topic, error) {
    page?.failed?.(topic, error);
  },
  notice(kind, data) {
    if (kind === "open") connection("live", "live");
    else if (kind === "lost") connection("lost", "connection lost, trying again…");
    else if (kind === "refused") explainRefusal();
    else if (kind === "hello" || kind === "back") {
      context.allowWrite = data.allow_write;
      context.token = data.token;
      element("path").textContent = element("path").title = data.path;
      document.title = `smithers · ${data.path.split(/[\\/]/).pop()}`;
      document.body.toggleAttribute("data-read-only", !data.allow_write);
      say(null);
      if (kind === "back") page?.back?.();
    } else if (kind === "gone") say(`The database is not there: ${data.reason}. Waiting for it to come back.`);
    else if (kind === "trouble") say(`Something could not be read: ${data.error}`);
  },
});

function connection(state, text) {
  const link = element("link");
  link.dataset.state = state;
  link.textContent = text;
}

function say(reason) {
  gone = reason;
  banner.hidden = gone === null;
  banner.textContent = gone ?? "";
}

/** Say why the stream was refused: a server that was started anew has given out another token. */
async function explainRefusal() {
  try {
    const response = await fetch("/api/commits?limit=1", { credentials: "same-origin" });
    if (response.status === 401) say("The server was started anew. Open the address that it has printed, and this page goes on.");
  } catch {
    // not there at all, which the state of the connection says
  }
}

function countGates(items) {
  waiting = items.filter((item) => item.status === "pending").length;
  const badge = document.querySelector("#nav .badge");
  badge.hidden = !waiting;
  badge.textContent = waiting;
  badge.setAttribute("aria-label", `${waiting} waiting`);
}

/** Go to a page: `#/execution/ID`. */
function go(hash) {
  location.hash = hash;
}

/** Follow these topics, beside what the frame itself shows. */
function follow(topics) {
  stream.follow([...new Set(["approvals", ...topics])]);
}

/** Ask the server once; an answer that is no success is thrown as an Error with its text. */
async function ask(path, parameters = {}) {
  const query = new URLSearchParams(
    Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined),
  ).toString();
  return answered(await fetch(query ? `${path}?${query}` : path, { credentials: "same-origin" }));
}

/** Have the server change something. */
async function post(path, body) {
  return answered(
    await fetch(path, {
      method: "POST",
      credentials: "same-origin",
      headers: { "Content-Type": "application/json", "X-Smithers-Token": context.token ?? "" },
      body: JSON.stringify(body),
    }),
  );
}

async function answered(response) {
  const text = await response.text();
  const parsed = response.headers.get("content-type")?.startsWith("application/json");
  const body = parsed ? JSON.parse(text) : text;
  if (!response.ok) throw new Error(body?.error ?? (String(body).trim() || `HTTP ${response.status}`));
  return body;
}

function showRoute() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const shown = Object.hasOwn(PAGES, name) ? name : "overview";
  if (route === `${shown}/${rest.join("/")}`) return;
  const first = route === null;
  route = `${shown}/${rest.join("/")}`;
  page?.end?.();
  main.replaceChildren();
  for (const link of document.querySelectorAll("#nav a")) {
    const here = link.dataset.page === shown || (shown === "execution" && link.dataset.page === "overview");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  page = PAGES[shown].open(main, context, ...rest);
  follow(page.topics ?? []);
  for (const [topic, items] of stream.items) page.show?.(topic, items);
  if (!first) main.focus({ preventScroll: true });
}

function build() {
  element("nav").append(
    h(
      "ul",
      {},
      LISTED.map((name) =>
        h(
          "li",
          {},
          h(
            "a",
            { href: `#/${name}`, "data-page": name },
            PAGES[name].title,
            name === "approvals" && h("span", { class: "badge", hidden: true }),
          ),
        ),
      ),
    ),
  );
  addEventListener("hashchange", showRoute);
  setInterval(() => tick(document), 1000);
  showRoute();
}

build();
