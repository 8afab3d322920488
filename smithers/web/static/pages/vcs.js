// Commits, snapshots and reviews.

import { count, empty, h, head, json, keyed, replace, status, text, time } from "../dom.js";

export default {
  title: "VCS",
  open(main) {
    const parts = {
      commits: part("Commits", ["When", "Commit", "Message", "Author", "Files", "Lines"], commit),
      reviews: part("Reviews", ["When", "Target", "Verdict", "Summary", "Issues"], review),
      snapshots: part("Snapshots", ["When", "Snapshot", "Description"], snapshot),
    };
    const nothing = h("div");
    main.append(h("h1", {}, "VCS"), nothing, ...Object.values(parts).map((one) => one.section));
    const sizes = new Map();
    return {
      topics: Object.keys(parts),
      show(topic, items) {
        if (!Object.hasOwn(parts, topic)) return;
        parts[topic].show(items);
        sizes.set(topic, items.length);
        const none = sizes.size === 3 && ![...sizes.values()].some(Boolean);
        replace(
          nothing,
          none
            ? [empty("Nothing is logged yet.", "A workflow logs what git or jj holds by:", "db.vcs.log_head()")]
            : [],
        );
      },
    };
  },
};

function part(title, names, render) {
  const rows = keyed(render);
  const body = h("tbody");
  const section = h(
    "section",
    { hidden: true, "aria-label": title },
    h("h2", {}, title),
    h("div", { class: "scroll" }, h("table", {}, head(...names), body)),
  );
  return {
    section,
    show(items) {
      section.hidden = !items.length;
      replace(body, rows(items));
    },
  };
}

function commit(one) {
  const lines = one.insertions === null ? "–" : `+${count(one.insertions)} −${count(one.deletions)}`;
  return h(
    "tr",
    {},
    h("td", {}, time(one.timestamp)),
    h("th", { scope: "row" }, h("code", { title: one.hash }, one.hash.slice(0, 10)), h("span", { class: "quiet" }, ` ${one.vcs_type}`)),
    h("td", { class: "wide" }, text(one.message, { label: "message", lines: 4 })),
    h("td", {}, one.author ?? "–"),
    h("td", { class: "number" }, one.files_changed === null ? "–" : count(one.files_changed)),
    h("td", { class: "number" }, lines),
  );
}

function review(one) {
  const open = one.blocking && !one.approved && !one.resolved_at;
  return h(
    "tr",
    {},
    h("td", {}, time(one.timestamp)),
    h("th", { scope: "row" }, one.target),
    h("td", {}, status(one.approved ? "approved" : open ? "blocking" : "changes asked for"), one.resolved_at && " resolved"),
    h("td", { class: "wide" }, text(one.summary, { label: "summary" })),
    h("td", {}, one.issues.length ? json(one.issues, { open: 0 }) : "none"),
  );
}

function snapshot(one) {
  return h(
    "tr",
    {},
    h("td", {}, time(one.timestamp)),
    h("th", { scope: "row" }, h("code", {}, one.snapshot_id)),
    h("td", { class: "wide" }, one.description ?? "–"),
  );
}
