// All executions, and what runs below each: phase → step → agent → tool.

import { count, dollars, duration, elapsed, empty, h, head, keyed, replace, status, time } from "../dom.js";

export default {
  title: "Overview",
  open(main, { follow, go }) {
    const tree = h("section", { "aria-labelledby": "now" });
    const table = h("section", { "aria-labelledby": "all" });
    main.append(h("h1", {}, "Overview"), tree, table);
    const row = keyed((one) => line(one, go));
    const running = keyed(branch);
    const body = h("tbody");
    const whole = h(
      "div",
      { class: "scroll" },
      h("table", {}, head("Execution", "Status", "Owner", "Started", "Took", "Agents", "Tokens", "Cost"), body),
    );
    const now = h("ul", { class: "tree" });
    return {
      topics: ["overview"],
      show(topic, items) {
        if (topic !== "overview") return;
        if (!items.length) {
          replace(tree);
          replace(
            table,
            empty("No execution yet.", "Run a workflow script, and it shows here at once:", "smithers run workflow.py"),
          );
          return;
        }
        const live = items.filter((one) => one.status === "running");
        replace(now, running(live));
        replace(
          tree,
          live.length ? [tree.querySelector("h2") ?? h("h2", { id: "now" }, "Running now"), now] : [],
        );
        replace(body, row(items));
        replace(table, table.querySelector("h2") ?? h("h2", { id: "all" }, "Executions"), whole);
      },
    };
  },
};

const dead = (one) => one.status === "running" && !one.is_live;

function line(one, go) {
  const href = `#/execution/${encodeURIComponent(one.id)}`;
  return h(
    "tr",
    { onclick: (event) => event.target.closest("a") || go(href), class: "link-row" },
    h("th", { scope: "row" }, h("a", { href }, one.name)),
    h("td", {}, status(one.status, { dead: dead(one) })),
    h("td", {}, owner(one)),
    h("td", {}, time(one.started_at)),
    h("td", { class: "number" }, elapsed(one)),
    h("td", { class: "number" }, count(one.total_agents)),
    h("td", { class: "number" }, count(one.total_tokens_used)),
    h("td", { class: "number" }, dollars(one.total_cost_usd)),
  );
}

function owner(one) {
  if (!one.owner) return h("span", { class: "none" }, "–");
  const says = one.status !== "running" ? "" : one.is_live ? " (alive)" : " (dead)";
  return h("span", { class: dead(one) ? "bad" : null }, one.owner + says);
}

/** What runs below an execution, as a tree: each part under the nearest one that also runs. */
function branch(one) {
  const below = new Map([[one.id, []]]);
  for (const part of one.running) below.set(part.id, []);
  for (const part of one.running) {
    const parent = part.parents.find((id) => below.has(id)) ?? one.id;
    below.get(parent).push(part);
  }
  const nested = (id) => {
    const parts = below.get(id);
    if (!parts.length) return null;
    return h("ul", {}, parts.map((part) => h("li", {}, label(part), nested(part.id))));
  };
  return h(
    "li",
    {},
    h("a", { href: `#/execution/${encodeURIComponent(one.id)}` }, one.name),
    " ",
    status(one.status, { dead: dead(one) }),
    " ",
    h("span", { class: "quiet" }, elapsed(one)),
    one.cancel_requested_at && h("span", { class: "bad" }, " cancel asked for"),
    nested(one.id) ?? h("ul", {}, h("li", { class: "none" }, "nothing runs below it just now")),
  );
}

export function label(part) {
  const figures = [
    part.tokens ? `${count(part.tokens)} tokens` : null,
    part.cost_usd ? dollars(part.cost_usd) : null,
  ].filter(Boolean);
  return h(
    "span",
    {},
    h("span", { class: `kind ${part.kind}` }, part.kind),
    " ",
    part.name,
    part.text && h("span", { class: "quiet" }, ` ${part.text}`),
    " ",
    h("span", { class: "quiet" }, part.status === "running" ? elapsed(part) : duration(part.duration_ms)),
    figures.length > 0 && h("span", { class: "quiet" }, ` · ${figures.join(" · ")}`),
  );
}
