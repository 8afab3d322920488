// One stream of events for the page: the newest of each topic, by whole values and by differences.

/** Follow topics. `show(topic, items)`, `failed(topic, error)`, `notice(kind, data)` are called. */
export class Stream {
  constructor({ show, failed, notice }) {
    this.show = show;
    this.failed = failed;
    this.notice = notice;
    this.items = new Map();
    this.source = null;
    this.topics = [];
  }

  /** Follow these topics from now on, and no others. */
  follow(topics) {
    if (topics.join("\n") === this.topics.join("\n") && this.source) return;
    this.topics = topics;
    this.open();
  }

  open() {
    this.source?.close();
    this.items.clear();
    const query = this.topics.map((topic) => `topic=${encodeURIComponent(topic)}`).join("&");
    const source = new EventSource(`/events?${query}`);
    this.source = source;
    const on = (kind, take) =>
      source.addEventListener(kind, (event) => source === this.source && take(JSON.parse(event.data)));
    source.onopen = () => this.notice("open");
    source.onerror = () => {
      if (source !== this.source) return;
      this.notice("lost");
      // A refused stream is not tried again by the browser itself.
      if (source.readyState === EventSource.CLOSED) {
        this.notice("refused");
        setTimeout(() => source === this.source && this.open(), RETRY_MS);
      }
    };
    on("hello", (data) => this.notice("hello", data));
    on("gone", (data) => this.notice("gone", data));
    on("back", (data) => this.notice("back", data));
    on("trouble", (data) => this.notice("trouble", data));
    on("failed", ({ topic, error }) => {
      this.items.delete(topic);
      this.failed(topic, error);
    });
    on("value", ({ topic, value }) => this.take(topic, value));
    on("diff", ({ topic, diff }) => {
      const before = this.items.get(topic);
      if (before) this.take(topic, patched(before, diff));
      else this.open(); // a difference to something that this page does not have
    });
  }

  take(topic, items) {
    this.items.set(topic, items);
    this.show(topic, items);
  }
}

const RETRY_MS = 1000;

/** Apply a difference; items that it leaves alone stay the same objects. */
export function patched(before, diff) {
  const items = [...before];
  for (const [step, at, third] of diff) {
    if (step === "remove") items.splice(at, 1);
    else if (step === "insert") items.splice(at, 0, third);
    else if (step === "update") items[at] = third;
    else items.splice(third, 0, ...items.splice(at, 1));
  }
  return items;
}
