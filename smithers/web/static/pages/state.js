// Every key as it is, a key's history, and the way back through all commits.

import { count, empty, h, head, json, keyed, replace, text, time } from "../dom.js";
import { Slider } from "../slider.js";

export default {
  title: "State",
  open(main, context, key) {
    const page = key === undefined ? new Keys(main, context) : new History(main, context, key);
    return page;
  },
};

/** All keys; what has changed flashes. The slider shows them as they were at some commit. */
class Keys {
  topics = ["state"];

  constructor(main, context) {
    this.items = null;
    this.seen = new Set();
    this.past = null;
    this.body = h("tbody");
    this.table = h("div", { class: "scroll" }, h("table", { class: "state" }, head("Key", "Value", "Changed"), this.body));
    this.rows = keyed((one) => this.row(one));
    this.place = h("section", { "aria-label": "Keys" });
    this.slider = new Slider(context, (past) => this.travel(past));
    main.append(h("h1", {}, "State"), this.slider.element, this.place);
  }

  show(topic, items) {
    if (topic !== "state") return;
    this.items = items;
    this.slider.changed();
    this.draw();
  }

  back() {
    this.slider.changed();
  }

  travel(past) {
    this.past = past;
    this.draw();
  }

  draw() {
    if (this.past) {
      replace(this.body, compared(this.items ?? [], this.past).map(comparedRow));
      replace(this.place, this.table);
      return;
    }
    if (!this.items) return;
    if (!this.items.length) {
      replace(this.place, empty("No key is set.", "A workflow, or the command line, sets one:", `smithers db set phase '"review"'`));
    } else {
      replace(this.body, this.rows(this.items));
      replace(this.place, this.table);
    }
    this.seen = new Set(this.items.map((one) => one.key));
    this.drawn = true;
  }

  row(one) {
    return h(
      "tr",
      { class: this.drawn ? "flash" : null },
      h("th", { scope: "row" }, h("a", { href: `#/state/${encodeURIComponent(one.key)}` }, one.key)),
      h("td", { class: "wide" }, value(one)),
      h("td", {}, time(one.updated_at)),
    );
  }
}

function value(one) {
  if (one.beginning === undefined) return json(one.value);
  return h(
    "span",
    {},
    h("a", { href: `/api/value?key=${encodeURIComponent(one.key)}`, target: "_blank", rel: "noopener" }, `${count(one.size)} characters`),
    h("span", { class: "quiet" }, ", they begin: "),
    text(one.beginning, { label: "beginning" }),
  );
}

/** What is different between now and then: [kind, key, then, now] for each key, sorted. */
export function compared(now, then) {
  const before = new Map(then.map((one) => [one.key, one]));
  const after = new Map(now.map((one) => [one.key, one]));
  return [...new Set([...before.keys(), ...after.keys()])].sort().map((key) => {
    const [old, present] = [before.get(key), after.get(key)];
    const kind = !old ? "absent" : !present ? "gone" : same(old, present) ? "same" : "other";
    return { kind, key, old, present };
  });
}

const same = (one, other) => JSON.stringify(one.value) === JSON.stringify(other.value) && one.beginning === other.beginning;

const KINDS = { absent: "not set then", gone: "not set now", same: "as now", other: "was another" };

function comparedRow({ kind, key, old, present }) {
  return h(
    "tr",
    { class: `past ${kind}` },
    h("th", { scope: "row" }, key),
    h(
      "td",
      { class: "wide" },
      old ? value(old) : h("span", { class: "none" }, "not set"),
      kind === "other" && h("div", { class: "quiet" }, "now: ", value(present)),
      kind === "absent" && h("div", { class: "quiet" }, "now: ", value(present)),
    ),
    h("td", {}, h("span", { class: "tag" }, KINDS[kind])),
  );
}

/** A key's transitions, newest first, with trigger and cause. */
class History {
  constructor(main, context, key) {
    this.context = context;
    this.key = key;
    this.topics = ["state"];
    this.rows = [];
    this.body = h("tbody");
    this.more = h("button", { type: "button", onclick: () => this.load(this.rows.at(-1)?.seq) }, "Older ones");
    this.place = h("section", { "aria-label": "History" });
    this.table = h(
      "div",
      { class: "scroll" },
      h("table", {}, head("When", "Value", "Before", "Trigger", "Cause"), this.body),
    );
    this.render = keyed(transition);
    main.append(
      h("p", {}, h("a", { href: "#/state" }, "← all keys")),
      h("h1", {}, "History of ", h("code", {}, key)),
      this.place,
    );
    this.load();
  }

  show(topic, items) {
    if (topic !== "state") return;
    const present = items.find((one) => one.key === this.key);
    if (this.drawn && present !== this.present) this.load();
    this.present = present;
  }

  back() {
    this.load();
  }

  async load(before = null) {
    try {
      const found = await this.context.ask("/api/history", { key: this.key, before, limit: PAGE });
      const have = new Map(this.rows.map((one) => [one.seq, one]));
      const added = found.transitions.map((one) => have.get(one.seq) ?? one);
      const newest = before === null ? added : [...this.rows, ...added];
      const older = before === null ? this.rows.filter((one) => one.seq < (added.at(-1)?.seq ?? 0)) : [];
      this.rows = [...newest, ...older];
      if (before !== null || !older.length) this.more.hidden = !found.more;
    } catch (error) {
      replace(this.place, h("p", { class: "bad" }, error.message));
      return;
    }
    this.drawn = true;
    if (!this.rows.length) {
      replace(this.place, empty("This key has no history.", "It was never set in this database."));
      return;
    }
    replace(this.body, this.render(this.rows));
    replace(this.place, this.table, this.more);
  }
}

const PAGE = 100;

function transition(one) {
  const cause = [one.execution_id && `execution ${one.execution_id.slice(-8)}`, one.agent_id && `agent ${one.agent_id.slice(-8)}`];
  return h(
    "tr",
    {},
    h("td", {}, time(one.timestamp)),
    h("td", { class: "wide" }, one.deleted ? h("span", { class: "bad" }, "deleted") : json(one.value)),
    h("td", { class: "wide" }, json(one.previous_value, { open: 0 })),
    h("td", {}, one.trigger ?? "–"),
    h(
      "td",
      {},
      one.execution_id
        ? h("a", { href: `#/execution/${encodeURIComponent(one.execution_id)}` }, cause.filter(Boolean).join(", "))
        : "–",
    ),
  );
}
