// Triggers: how far each is, and what it has set aside.

import { count, empty, failure, h, head, json, keyed, replace, status, time } from "../dom.js";

export default {
  title: "Triggers",
  open(main, context) {
    const body = h("tbody");
    const says = h("p", { role: "status" });
    const place = h("section", { "aria-label": "Triggers" });
    const dead = h("section", { "aria-labelledby": "dead", hidden: true });
    const deadBody = h("tbody");
    const retry = async (name, button) => {
      button.disabled = true;
      try {
        await context.post("/api/retry", { trigger: name });
        says.textContent = `What ${name} has set aside will be tried again.`;
      } catch (error) {
        says.textContent = error.message;
        button.disabled = false;
      }
    };
    const rows = keyed((one) => trigger(one, context, retry));
    const letters = keyed(letter);
    const table = h(
      "div",
      { class: "scroll" },
      h("table", {}, head("Trigger", "On", "State", "Cursor", "Lag", "Handled by", "Set aside", "Last error"), body),
    );
    dead.append(
      h("h2", { id: "dead" }, "Set aside"),
      h("div", { class: "scroll" }, h("table", {}, head("When", "Trigger", "Change", "Attempts", "Error"), deadBody)),
    );
    main.append(h("h1", {}, "Triggers"), says, place, dead);
    return {
      topics: ["triggers", "dead"],
      show(topic, items) {
        if (topic === "dead") {
          dead.hidden = !items.length;
          replace(deadBody, letters(items));
        }
        if (topic !== "triggers") return;
        replace(body, rows(items));
        replace(
          place,
          items.length
            ? table
            : empty("No trigger is registered.", "A program has a change call a function by:", '@db.triggers.on("phase", to="review", name="reviewer")\ndef review(transition): ...'),
        );
      },
    };
  },
};

function trigger(one, context, retry) {
  const button = h("button", {
    type: "button", disabled: !context.allowWrite,
    title: context.allowWrite ? null : "Start `smithers ui --allow-write` to retry from here",
    onclick: (event) => retry(one.name, event.currentTarget),
  }, "Retry");
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, one.name),
    h("td", {}, one.key === null ? h("code", {}, one.sql) : ["key ", h("code", {}, one.key)]),
    h("td", {}, status(one.state), one.next_at && [" next ", time(one.next_at, { short: true })]),
    h("td", { class: "number" }, one.cursor === null ? "–" : count(one.cursor)),
    h("td", { class: "number" }, one.lag === null ? "–" : count(one.lag)),
    h("td", {}, one.owner ?? h("span", { class: "none" }, "nobody now")),
    h("td", { class: "number" }, count(one.dead), one.requeued > 0 && ` (${count(one.requeued)} to retry)`, one.dead > 0 && [" ", button]),
    h("td", { class: "wide" }, one.error ? failure(one.error) : "–"),
  );
}

function letter(one) {
  const change = one.transition;
  return h(
    "tr",
    {},
    h("td", {}, time(one.at)),
    h("th", { scope: "row" }, one.trigger),
    h("td", { class: "wide" }, change ? [h("code", {}, change.key), " = ", json(change.value, { open: 0 })] : "an answer of its query"),
    h("td", { class: "number" }, count(one.attempts)),
    h("td", { class: "wide" }, failure(one.error)),
  );
}
