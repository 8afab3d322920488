// Gates at which a workflow waits for a person.

import { empty, h, head, keyed, replace, status, text, time } from "../dom.js";

export default {
  title: "Approvals",
  open(main, context) {
    const says = h("p", { role: "status" });
    const open = h("section", { "aria-label": "Waiting" });
    const past = h("section", { "aria-label": "Answered", hidden: true });
    const body = h("tbody");
    const answer = async (one, verdict, comment, form) => {
      for (const button of form.querySelectorAll("button")) button.disabled = true;
      try {
        await context.post(`/api/${verdict}`, { id: one.id, comment: comment || null });
        says.textContent = `${one.key}: ${verdict === "approve" ? "approved" : "denied"}.`;
      } catch (error) {
        says.textContent = error.message;
        for (const button of form.querySelectorAll("button")) button.disabled = false;
      }
    };
    const gates = keyed((one) => gate(one, context, answer));
    const rows = keyed(answered);
    past.append(
      h("h2", {}, "Answered"),
      h("div", { class: "scroll" }, h("table", {}, head("Asked", "Gate", "Prompt", "Answer", "Answered"), body)),
    );
    main.append(h("h1", {}, "Approvals"), says, open, past);
    return {
      topics: ["approvals"],
      show(topic, items) {
        if (topic !== "approvals") return;
        const waiting = items.filter((one) => one.status === "pending");
        const rest = items.filter((one) => one.status !== "pending");
        replace(
          open,
          waiting.length
            ? gates(waiting)
            : empty("Nobody waits for an answer.", "A workflow asks for one by:", 'approval = await run.human("deploy", "Deploy to production?")'),
        );
        past.hidden = !rest.length;
        replace(body, rows(rest));
      },
    };
  },
};

function gate(one, context, answer) {
  const comment = h("input", { type: "text", id: `comment-${one.id}`, autocomplete: "off", disabled: !context.allowWrite });
  const button = (verdict, label, kind) =>
    h("button", {
      type: "button", class: kind, disabled: !context.allowWrite,
      onclick: (event) => answer(one, verdict, comment.value, event.currentTarget.closest("article")),
    }, label);
  return h(
    "article",
    { class: "gate" },
    h("h2", {}, one.key, one.occurrence > 0 && h("span", { class: "quiet" }, ` (${one.occurrence + 1}. time)`)),
    text(one.prompt, { label: "prompt", lines: 40 }),
    h("p", { class: "quiet" }, "asked ", time(one.requested_at), " by ", h("a", { href: `#/execution/${encodeURIComponent(one.execution_id)}` }, "this execution")),
    h("label", { for: `comment-${one.id}` }, "Comment"),
    comment,
    h("div", { class: "buttons" }, button("approve", "Approve", "good"), button("deny", "Deny", "danger")),
    !context.allowWrite && h("p", { class: "quiet" }, "This page only reads. Answer by ", h("code", {}, `smithers db approve ${one.key}`), ", or start ", h("code", {}, "smithers ui --allow-write"), "."),
  );
}

function answered(one) {
  return h(
    "tr",
    {},
    h("td", {}, time(one.requested_at)),
    h("th", { scope: "row" }, one.key),
    h("td", { class: "wide" }, text(one.prompt, { label: "prompt", lines: 3 })),
    h("td", {}, status(one.status), one.comment && h("div", { class: "quiet" }, one.comment)),
    h("td", {}, time(one.decided_at)),
  );
}
