// The way back: a slider over all commits, the state as it was at one, and restoring it.

import { count, h, json, replace, time } from "./dom.js";

/** A slider over the commits; `travel(items)` is called with the state then, or null for now. */
export class Slider {
  constructor(context, travel) {
    this.context = context;
    this.travel = travel;
    this.last = 0; // the newest change
    this.asked = 0; // so that only the answer to the last question counts
    this.at = null; // the moment that is shown, null for now
    this.input = h("input", {
      type: "range", id: "moment", min: 0, max: 0, step: 1, value: 0, disabled: true,
      oninput: () => this.moved(), "aria-describedby": "moment-text",
    });
    this.says = h("output", { id: "moment-text", for: "moment" }, "now");
    this.now = h("button", { type: "button", disabled: true, onclick: () => this.toNow() }, "Back to now");
    this.restore = h("button", { type: "button", class: "danger", disabled: true, onclick: () => this.ask() }, "Restore to here…");
    this.dialog = h("dialog", { "aria-labelledby": "restore-title" });
    this.element = h(
      "section",
      { class: "slider", "aria-label": "Time travel" },
      h("label", { for: "moment" }, "Moment"),
      this.input,
      h("div", { class: "slider-line" }, this.says, this.now, this.restore),
      this.dialog,
    );
  }

  /** The state has changed: there may be more commits now. */
  async changed() {
    try {
      const { first, last } = await this.context.ask("/api/commits", { limit: 1 });
      this.last = last;
      this.input.min = first ?? 0;
      this.input.max = last ?? 0;
      this.input.disabled = first === null || first === last;
      if (this.at === null) this.input.value = last ?? 0;
    } catch {
      this.input.disabled = true; // the banner says why; it comes back with the database
    }
  }

  async moved() {
    const seq = Number(this.input.value);
    if (seq >= this.last) {
      this.toNow();
      return;
    }
    const asked = (this.asked += 1);
    this.now.disabled = false;
    try {
      const found = await this.context.ask("/api/state_at", { seq });
      if (asked !== this.asked) return;
      this.at = found;
      replace(
        this.says,
        `after change ${count(found.seq)} of ${count(this.last)}, `,
        time(found.timestamp),
        found.trigger ? `, by ${found.trigger}` : "",
      );
      this.restore.disabled = !this.context.allowWrite;
      this.restore.title = this.context.allowWrite ? "" : "Start `smithers ui --allow-write` to restore from here";
      this.travel(found.items);
    } catch (error) {
      if (asked === this.asked) replace(this.says, h("span", { class: "bad" }, error.message));
    }
  }

  toNow() {
    this.asked += 1;
    this.at = null;
    this.input.value = this.last;
    this.now.disabled = this.restore.disabled = true;
    replace(this.says, "now");
    this.travel(null);
  }

  /** Show what restoring would change, and do it when that is confirmed. */
  async ask() {
    const { seq } = this.at;
    let preview;
    try {
      preview = await this.context.ask("/api/restore_preview", { seq });
    } catch (error) {
      replace(this.says, h("span", { class: "bad" }, error.message));
      return;
    }
    const says = h("p", { role: "status" });
    const changes = preview.changes.map((one) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, one.key),
        h("td", {}, one.absent ? h("span", { class: "none" }, "not set") : json(one.from, { open: 0 })),
        h("td", {}, one.kind === "delete" ? h("span", { class: "none" }, "not set") : json(one.to, { open: 0 })),
      ),
    );
    const confirm = h("button", {
      type: "button", class: "danger", disabled: !changes.length,
      onclick: async () => {
        confirm.disabled = true;
        try {
          await this.context.post("/api/restore", { seq, now: preview.now });
          this.dialog.close();
          await this.changed();
          this.toNow();
        } catch (error) {
          says.textContent = error.message;
          confirm.disabled = false;
        }
      },
    }, "Restore");
    replace(
      this.dialog,
      h("h2", { id: "restore-title" }, "Restore the state to this moment?"),
      changes.length
        ? [
            h("p", {}, `${count(changes.length)} ${changes.length === 1 ? "key changes" : "keys change"}. The history keeps what is there now.`),
            h(
              "div",
              { class: "scroll" },
              h(
                "table",
                {},
                h("thead", {}, h("tr", {}, ["Key", "Now", "After restoring"].map((name) => h("th", { scope: "col" }, name)))),
                h("tbody", {}, changes),
              ),
            ),
          ]
        : h("p", {}, "The state is the same now: nothing would change."),
      says,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => this.dialog.close() }, "Cancel"), confirm),
    );
    this.dialog.showModal();
  }
}
