// Memories, found as one types.

import { empty, h, head, keyed, replace, text, time } from "../dom.js";

export default {
  title: "Memories",
  open(main, { follow }, asked = "") {
    const input = h("input", {
      type: "search", id: "query", autocomplete: "off", spellcheck: "false", value: asked,
      placeholder: "words, a path, a name…", oninput: () => later(),
    });
    const body = h("tbody");
    const table = h(
      "div",
      { class: "scroll" },
      h("table", {}, head("Category", "Scope", "Key", "Content", "Confidence", "Updated"), body),
    );
    const found = h("section", { "aria-live": "polite", "aria-label": "Found" });
    const rows = keyed((one) =>
      h(
        "tr",
        {},
        h("td", {}, one.category),
        h("td", {}, one.scope),
        h("th", { scope: "row" }, one.key),
        h("td", { class: "wide" }, text(one.content, { label: "content" })),
        h("td", { class: "number" }, one.confidence.toFixed(2)),
        h("td", {}, time(one.updated_at)),
      ),
    );
    main.append(
      h("h1", {}, "Memories"),
      h("form", { onsubmit: (event) => event.preventDefault(), role: "search" }, h("label", { for: "query" }, "Search"), input),
      found,
    );
    let timer = null;
    let topic = `memories:${asked}`;
    const later = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        topic = `memories:${input.value.trim()}`;
        follow([topic]);
      }, 120);
    };
    return {
      topics: [topic],
      show(name, items) {
        if (name !== topic) return;
        replace(body, rows(items));
        if (items.length) replace(found, table);
        else if (input.value.trim()) replace(found, empty("Nothing is found.", "Fewer or other words may find more."));
        else {
          replace(
            found,
            empty("No memories yet.", "A workflow keeps what it has learned by:", 'db.memories.add("fact", "build", "make test needs sqlite3")'),
          );
        }
      },
      failed(name, error) {
        if (name === topic) replace(found, h("p", { class: "bad" }, error));
      },
      end: () => clearTimeout(timer),
    };
  },
};
