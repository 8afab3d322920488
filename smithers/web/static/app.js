// The overview, in as few lines as follow a topic.

const banner = document.getElementById("banner");
const list = document.getElementById("executions");
let items = [];

function apply(diff) {
  for (const [step, at, third] of diff) {
    if (step === "remove") items.splice(at, 1);
    else if (step === "move") items.splice(third, 0, ...items.splice(at, 1));
    else if (step === "insert") items.splice(at, 0, third);
    else items[at] = third;
  }
}

function show() {
  list.replaceChildren(
    ...items.map((one) => {
      const line = document.createElement("li");
      line.textContent = `${one.name}: ${one.status}`;
      return line;
    }),
  );
}

const events = new EventSource("/events?topic=overview");
events.addEventListener("value", (event) => {
  items = JSON.parse(event.data).value;
  show();
});
events.addEventListener("diff", (event) => {
  apply(JSON.parse(event.data).diff);
  show();
});
events.addEventListener("gone", (event) => {
  banner.textContent = JSON.parse(event.data).reason;
});
events.addEventListener("back", () => {
  banner.textContent = "";
});
