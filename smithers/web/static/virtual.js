// A long list of which only what is in sight is in the page.

import { h } from "./dom.js";

const OVER = 8; // rows above and below that are kept ready

/** Show many rows of one height. `set(items)` changes them; `element` is what scrolls. */
export class VirtualList {
  constructor({ render, rowHeight = 32, label, height = "60vh" }) {
    this.render = render;
    this.rowHeight = rowHeight;
    this.items = [];
    this.rows = new Map();
    this.body = h("div", { class: "virtual-body" });
    this.element = h("div", { class: "virtual", tabindex: "0", role: "list", "aria-label": label }, this.body);
    this.element.style.maxHeight = height;
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
  }

  set(items) {
    this.items = items;
    this.body.style.height = `${items.length * this.rowHeight}px`;
    this.draw();
  }

  /** Bring a row into sight. */
  reveal(place) {
    const top = place * this.rowHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    const below = top + this.rowHeight - this.element.clientHeight;
    if (below > this.element.scrollTop) this.element.scrollTop = below;
  }

  draw() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - OVER);
    const last = Math.min(
      this.items.length,
      Math.ceil((scrollTop + (clientHeight || 600)) / this.rowHeight) + OVER,
    );
    const rows = new Map();
    for (let place = first; place < last; place += 1) {
      const item = this.items[place];
      let row = this.rows.get(item);
      if (!row) {
        row = this.render(item);
        row.setAttribute("role", "listitem");
        row.style.height = `${this.rowHeight}px`;
        this.body.append(row);
      }
      row.style.transform = `translateY(${place * this.rowHeight}px)`;
      row.setAttribute("aria-posinset", place + 1);
      row.setAttribute("aria-setsize", this.items.length);
      rows.set(item, row);
    }
    for (const [item, row] of this.rows) if (!rows.has(item)) row.remove();
    this.rows = rows;
  }

  end() {
    this.observer.disconnect();
  }
}
