// A query of one's own, reading only; its answer follows the database.

import { count, empty, h, head, replace } from "../dom.js";
import { VirtualList } from "../virtual.js";

const FEW = 200; // more rows are shown in a list that keeps only those in sight

export default {
  title: "SQL",
  open(main, { follow, go }, asked = "") {
    const input = h("textarea", {
      id: "sql", rows: 5, spellcheck: "false", autocomplete: "off",
      placeholder: "SELECT key, value FROM state",
      onkeydown: (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(event);
      },
    });
    input.value = asked;
    const place = h("section", { "aria-live": "polite", "aria-label": "Answer" });
    let topic = null;
    let list = null;
    const run = (event) => {
      event.preventDefault();
      const sql = input.value.trim();
      if (sql) go(`#/sql/${encodeURIComponent(sql)}`);
    };
    main.append(
      h("h1", {}, "SQL"),
      h(
        "form",
        { onsubmit: run },
        h("label", { for: "sql" }, "Query, reading only"),
        input,
        h("div", { class: "buttons" }, h("button", { type: "submit", class: "good" }, "Run"), h("span", { class: "quiet" }, "Ctrl+Enter; the answer is live")),
      ),
      place,
    );
    if (asked) topic = `sql:${asked}`;
    else {
      replace(place, empty("Nothing is asked yet.", "For example:", "SELECT name, count(*) AS calls FROM tool_calls GROUP BY name ORDER BY calls DESC"));
    }
    return {
      topics: topic ? [topic] : [],
      show(name, items) {
        if (name !== topic) return;
        list?.end();
        list = null;
        const { columns, rows, truncated } = items[0] ?? { columns: [], rows: [] };
        if (!rows.length) {
          replace(place, h("p", { class: "none" }, "No row."));
          return;
        }
        const says = h(
          "p",
          { class: "quiet" },
          truncated ? `the first ${count(rows.length)} rows` : `${count(rows.length)} ${rows.length === 1 ? "row" : "rows"}`,
        );
        const cells = (row, tag) => row.map((one) => h(tag, { title: cell(one) }, cell(one)));
        if (rows.length <= FEW) {
          const body = rows.map((row) => h("tr", {}, cells(row, "td")));
          replace(place, says, h("div", { class: "scroll" }, h("table", {}, head(...columns), h("tbody", {}, body))));
          return;
        }
        list = new VirtualList({ label: "Rows", render: (row) => h("div", { class: "sql-row" }, cells(row, "span")) });
        replace(place, says, h("div", { class: "sql-row sql-head" }, columns.map((column) => h("span", {}, column))), list.element);
        list.set(rows);
      },
      failed(name, error) {
        if (name === topic) replace(place, h("p", { class: "bad", role: "alert" }, error));
      },
      end: () => list?.end(),
    };
  },
};

function cell(value) {
  if (value === null) return "NULL";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
