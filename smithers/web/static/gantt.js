// When each part of an execution ran, drawn: one bar a part, time to the right.

import { duration, h, svg } from "./dom.js";

const ROW = 22;
const MOST = 400; // more bars than this tell nobody anything: the newest are drawn

/** Draw parts; `select(part)` is called for the one that is chosen. */
export class Gantt {
  constructor(select) {
    this.select = select;
    this.says = h("p", { class: "quiet" });
    this.drawing = svg("svg", { class: "gantt", role: "group", "aria-label": "When each part ran" });
    this.frame = h("div", { class: "gantt-scroll" }, this.drawing);
    this.element = h("figure", { class: "gantt-frame" }, this.frame, this.says);
    this.bars = new Map();
    this.parts = [];
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.frame);
    this.timer = setInterval(() => this.running && this.draw(), 1000);
  }

  set(parts, { until }) {
    this.parts = parts.filter((one) => one.kind !== "tool").slice(-MOST);
    this.hidden = parts.filter((one) => one.kind !== "tool").length - this.parts.length;
    this.until = until;
    this.draw();
  }

  draw() {
    const parts = this.parts;
    this.running = parts.some((one) => one.status === "running");
    if (!parts.length) {
      this.drawing.replaceChildren();
      this.bars.clear();
      return;
    }
    const width = Math.max(280, this.frame.clientWidth);
    const names = Math.min(200, width * 0.32);
    const start = Math.min(...parts.map((one) => Date.parse(one.started_at)));
    // A clock that was set back ends nothing before it began.
    const ends = parts.map((one) => Math.max(
      Date.parse(one.started_at),
      one.completed_at ? Date.parse(one.completed_at) : this.until ?? Date.now(),
    ));
    const span = Math.max(1, Math.max(...ends) - start);
    const x = (at) => names + ((at - start) / span) * (width - names - 4);
    const height = parts.length * ROW + 4;
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.drawing.setAttribute("width", width);
    this.drawing.setAttribute("height", height);
    const bars = new Map();
    parts.forEach((part, place) => {
      const bar = this.bars.get(part.id) ?? this.bar(part);
      const from = x(Date.parse(part.started_at));
      const to = x(ends[place]);
      const took = duration(ends[place] - Date.parse(part.started_at));
      bar.part = part;
      bar.group.setAttribute("transform", `translate(0 ${place * ROW + 2})`);
      bar.group.setAttribute("class", `bar ${part.kind}`);
      bar.group.setAttribute("data-status", part.status);
      bar.group.setAttribute("aria-label", `${part.kind} ${part.name}, ${part.status}, ${took}`);
      bar.name.textContent = part.name.length > 26 ? `${part.name.slice(0, 25)}…` : part.name;
      bar.name.setAttribute("x", 6 + 12 * depth(part));
      bar.title.textContent = `${part.kind} ${part.name}: ${part.status}, ${took}`;
      bar.rect.setAttribute("x", from);
      bar.rect.setAttribute("width", Math.max(2, to - from));
      bar.back.setAttribute("width", width);
      if (bar.group.parentNode !== this.drawing) this.drawing.append(bar.group);
      bars.set(part.id, bar);
    });
    for (const [id, bar] of this.bars) if (!bars.has(id)) bar.group.remove();
    this.bars = bars;
    this.says.textContent = `${duration(span)} from left to right${this.hidden ? `; ${this.hidden} older parts are not drawn` : ""}`;
  }

  bar(part) {
    const bar = {
      part,
      back: svg("rect", { class: "back", x: 0, y: 0, height: ROW - 2 }),
      name: svg("text", { y: ROW - 8 }),
      rect: svg("rect", { class: "span", y: 4, height: ROW - 10, rx: 3 }),
      title: svg("title"),
    };
    const choose = () => this.select(bar.part);
    bar.group = svg(
      "g",
      {
        tabindex: 0, role: "button", onclick: choose,
        onkeydown: (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          choose();
        },
      },
      bar.title, bar.back, bar.name, bar.rect,
    );
    return bar;
  }

  end() {
    clearInterval(this.timer);
    this.observer.disconnect();
  }
}

const DEPTHS = { phase: 0, step: 1, agent: 2 };
const depth = (part) => DEPTHS[part.kind] ?? 3;
