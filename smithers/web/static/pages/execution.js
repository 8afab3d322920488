// One execution: what ran when, what agents say and what their tools have done.

import { count, dollars, elapsed, empty, failure, h, json, replace, status, text, time } from "../dom.js";
import { Gantt } from "../gantt.js";
import { VirtualList } from "../virtual.js";

export default {
  title: "Execution",
  open: (main, context, id, part) => new Execution(main, context, id ?? "", part ?? null),
};

class Execution {
  constructor(main, context, id, part) {
    this.context = context;
    this.id = id;
    this.chosen = part;
    this.one = null;
    this.parts = [];
    this.title = h("h1", {}, "Execution");
    this.facts = h("section", { "aria-label": "Facts" });
    this.detail = h("section", { class: "detail", "aria-label": "Chosen part", "aria-live": "polite" });
    this.gantt = new Gantt((one) => this.choose(one));
    this.timeline = h("section", { "aria-labelledby": "timeline" }, h("h2", { id: "timeline" }, "Timeline"), this.gantt.element);
    this.list = new VirtualList({ label: "Tool calls", render: (one) => this.call(one), height: "40vh", rowHeight: 34 });
    this.calls = h("section", { hidden: true, "aria-labelledby": "calls" }, h("h2", { id: "calls" }, "Tool calls"), this.list.element);
    this.shown = null;
    main.append(
      h("p", {}, h("a", { href: "#/overview" }, "← all executions")),
      this.title, this.facts, this.timeline, this.detail, this.calls,
    );
  }

  get topics() {
    const agent = this.parts.find((one) => one.id === this.chosen && one.kind === "agent");
    return [`execution:${this.id}`, `parts:${this.id}`, ...(agent ? [`agent:${agent.id}`] : [])];
  }

  show(topic, items) {
    if (topic === `execution:${this.id}`) this.showFacts(items[0]);
    else if (topic === `parts:${this.id}`) this.showParts(items);
    else if (topic === `agent:${this.chosen}`) this.showAgent(items[0]);
  }

  failed(topic, error) {
    if (topic.startsWith("agent:")) replace(this.detail, h("p", { class: "bad" }, error));
    else replace(this.facts, h("p", { class: "bad" }, error));
  }

  showFacts(one) {
    this.one = one;
    if (!one) {
      replace(this.facts, empty("There is no such execution in this database.", "It may have been pruned."));
      this.timeline.hidden = true;
      return;
    }
    this.timeline.hidden = false;
    replace(this.title, one.name);
    const dead = one.status === "running" && !one.is_live;
    const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    replace(
      this.facts,
      h(
        "dl",
        { class: "facts" },
        fact("Status", status(one.status, { dead })),
        fact("Owner", one.owner ?? "–", one.status === "running" && (one.is_live ? " (alive)" : " (dead)")),
        fact("Started", time(one.started_at)),
        fact("Took", elapsed(one)),
        fact("Agents", count(one.total_agents)),
        fact("Tool calls", count(one.total_tool_calls)),
        fact("Tokens", count(one.total_tokens_used)),
        fact("Cost", dollars(one.total_cost_usd)),
        one.total_iterations > 0 && fact("Iterations", count(one.total_iterations)),
        one.file_path && fact("Script", h("code", {}, one.file_path)),
      ),
      one.error && h("div", { class: "bad" }, failure(one.error)),
      one.cancel_requested_at && h("p", { class: "bad" }, "Cancel asked for ", time(one.cancel_requested_at), one.cancel_reason && `: ${one.cancel_reason}`),
      one.result !== null && one.result !== undefined && h("div", {}, h("h2", {}, "Result"), json(one.result)),
      one.status === "running" && !one.cancel_requested_at && this.cancelButton(),
    );
  }

  cancelButton() {
    const says = h("span", { role: "status", class: "bad" });
    const button = h("button", {
      type: "button", class: "danger", disabled: !this.context.allowWrite,
      title: this.context.allowWrite ? null : "Start `smithers ui --allow-write` to cancel from here",
      onclick: async () => {
        if (!confirm(`Cancel ${this.one.name}?`)) return;
        button.disabled = true;
        try {
          await this.context.post("/api/cancel", { execution: this.id, reason: "from the live view" });
        } catch (error) {
          says.textContent = error.message;
          button.disabled = false;
        }
      },
    }, "Cancel…");
    return h("div", { class: "buttons" }, button, says);
  }

  showParts(items) {
    this.parts = items;
    this.gantt.set(items, { until: this.one && this.one.status !== "running" ? Date.parse(this.one.completed_at ?? "") || null : null });
    const calls = items.filter((one) => one.kind === "tool");
    this.calls.hidden = !calls.length;
    this.list.set(calls.reverse());
    if (!items.length) replace(this.detail, empty("Nothing has begun below it yet.", "Phases, steps and agents show here as they begin."));
    else if (!this.chosen) replace(this.detail, h("p", { class: "none" }, "Choose a bar or a tool call to see what it did."));
    else {
      const part = items.find((one) => one.id === this.chosen);
      if (part && part.kind !== "agent") this.showPart(part);
    }
    this.context.follow(this.topics);
  }

  call(one) {
    return h(
      "div",
      { class: "call" },
      h("button", { type: "button", class: "plain", onclick: () => this.choose(one) }, one.name),
      status(one.status),
      h("span", { class: "quiet cut" }, one.text ?? ""),
      h("span", { class: "quiet" }, elapsed(one)),
    );
  }

  choose(part) {
    this.chosen = part.id;
    this.shown = null;
    history.replaceState(null, "", `#/execution/${encodeURIComponent(this.id)}/${encodeURIComponent(part.id)}`);
    if (part.kind === "agent") {
      replace(this.detail, h("p", { class: "none" }, "…"));
      this.context.follow(this.topics);
    } else {
      this.showPart(part);
    }
    this.detail.scrollIntoView({ block: "nearest" });
  }

  showPart(part) {
    if (this.shown === part) return;
    this.shown = part;
    const about = [
      h("h2", {}, h("span", { class: `kind ${part.kind}` }, part.kind), " ", part.name),
      h("p", {}, status(part.status), " started ", time(part.started_at), ", took ", elapsed(part)),
      part.error && h("div", { class: "bad" }, failure(part.error)),
    ];
    replace(this.detail, about);
    if (part.kind === "tool") this.showTool(part, about);
  }

  async showTool(part, about) {
    try {
      const call = await this.context.ask("/api/tool", { id: part.id });
      if (this.shown !== part) return;
      replace(
        this.detail,
        about,
        call.summary && h("p", {}, call.summary),
        h("h3", {}, "Input"), json(call.input, { open: 2 }),
        h("h3", {}, "Output", call.output_size !== null && h("span", { class: "quiet" }, ` ${count(call.output_size)} bytes`)),
        call.output === null ? h("p", { class: "none" }, "none") : typeof call.output === "string" ? text(call.output, { label: "output", lines: 30 }) : json(call.output),
      );
    } catch (error) {
      if (this.shown === part) replace(this.detail, about, h("p", { class: "bad" }, error.message));
    }
  }

  showAgent(agent) {
    if (!agent) {
      replace(this.detail, h("p", { class: "none" }, "This agent is not there any more."));
      return;
    }
    const open = new Set([...this.detail.querySelectorAll("details[open]")].map((one) => one.dataset.fold));
    const fold = (name, ...children) =>
      h("details", { "data-fold": name, open: open.has(name) }, h("summary", {}, name), children);
    const tokens = `${count(agent.tokens_input)} in, ${count(agent.tokens_output)} out, ${count(agent.tokens_cache_read)} from the cache`;
    replace(
      this.detail,
      h("h2", {}, h("span", { class: "kind agent" }, "agent"), " ", agent.model),
      h("p", {}, status(agent.status), " started ", time(agent.started_at), ", took ", elapsed(agent), `, ${count(agent.turns)} turns, ${tokens}, ${dollars(agent.cost_usd)}`),
      agent.error && h("div", { class: "bad" }, failure(agent.error)),
      fold("Prompt", h("pre", {}, agent.prompt)),
      agent.system_prompt && fold("System prompt", h("pre", {}, agent.system_prompt)),
      h("h3", {}, agent.status === "running" ? "Text so far" : "Text"),
      agent.output ? h("pre", { class: "output" }, agent.output) : h("p", { class: "none" }, "none yet"),
      agent.structured !== null && [h("h3", {}, "Structured"), json(agent.structured, { open: 2 })],
    );
    const output = this.detail.querySelector(".output");
    if (output && agent.status === "running") output.scrollTop = output.scrollHeight;
  }

  end() {
    this.gantt.end();
    this.list.end();
  }
}

