// Triggers, dumps, and questions about the traffic that comes.

import { download, get, post, remove } from "./api.js";
import { bytes, count, element, time } from "./tables.js";

const ROWS_MAX = 200;

function button(label, title, act) {
  const made = element("button", { type: "button", className: "small", textContent: label, title });
  made.setAttribute("aria-label", title);
  made.addEventListener("click", act);
  return made;
}

// Names of columns that a line shows in another way.
const KNOWN = new Set(["ts", "te", "uid", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto"]);

// A row as one line.
function line(row) {
  const end = (side) => `${row[`id.${side}_h`]}:${row[`id.${side}_p`]}`;
  const begin = [row.ts !== undefined && time(row.ts), row["id.resp_h"] && `${end("orig")} → ${end("resp")}`].filter(Boolean);
  const text = ([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`;
  const rest = Object.entries(row).filter(([name]) => !KNOWN.has(name) || (name.startsWith("id.") && !row["id.resp_h"])).map(text);
  return [...begin, ...rest].join("  ");
}

// A list with a form that adds to it.
class Controls {
  constructor(id, read) {
    const article = document.getElementById(id);
    Object.assign(this, { article, list: article.querySelector(".list"), said: article.querySelector(".said"), form: article.querySelector("form") });
    this.form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const values = Object.fromEntries(new FormData(this.form));
      await this.act(async () => {
        await post("/" + id, read(values));
        this.form.reset();
      });
    });
  }

  // Does something, shows why it failed, and shows the list again.
  async act(work) {
    this.said.textContent = "";
    try {
      await work();
    } catch (error) {
      this.said.textContent = [error.message, error.hint].filter(Boolean).join(" – ");
    }
    await this.refresh();
  }

  async refresh() {
    try {
      this.list.replaceChildren(...(await this.items()));
      this.form.hidden = false;
    } catch (error) {
      this.list.replaceChildren();
      if (error.status === 409) this.said.textContent = `${error.message}: ${error.hint}`;
    }
  }
}

export class Triggers extends Controls {
  constructor() {
    super("triggers", ({ filter }) => ({ filter }));
  }

  async items() {
    const { triggers } = await get("/triggers");
    return triggers.map(({ id, filter, removable }) => {
      const parts = [element("code", { textContent: filter })];
      if (removable) parts.push(button("✕", `Remove the trigger ${filter}`, () => this.act(() => remove(`/triggers/${id}`))));
      else parts.push(element("span", { className: "more", textContent: "command line" }));
      return element("li", {}, ...parts);
    });
  }
}

export class Dumps extends Controls {
  constructor() {
    const seconds = (text) => Number(text.replace(",", ".")) || 0;
    super("dumps", ({ filter, before, after }) => ({ filter, before: seconds(before), after: seconds(after) }));
  }

  async items() {
    const { dumps } = await get("/dumps");
    return dumps.slice(0, 100).map(({ name, state, packets, bytes: size, reason }) => {
      const what = element("span", { className: "what", textContent: name }, element("small", { textContent: reason.replace(/^weir: /, "") }));
      const size_text = [packets !== null && `${count(packets)} packets`, bytes(size), state !== "complete" && state].filter(Boolean).join(", ");
      const save = button("↓", `Download ${name}`, () => this.act(() => download(`/dumps/${encodeURIComponent(name)}`, {}, name)));
      const parts = [what, element("span", { className: "more", textContent: size_text }), save];
      if (state === "begun") parts.push(button("■", `End ${name}`, () => this.act(() => remove(`/dumps/${encodeURIComponent(name)}`))));
      return element("li", {}, ...parts);
    });
  }
}

export class Questions extends Controls {
  constructor() {
    super("questions", ({ ask, filter }) => ({ ask, filter }));
    this.rows = document.getElementById("rows");
  }

  async items() {
    const { questions } = await get("/questions");
    return questions.map(({ id, ask, filter, rows, left_out }) => {
      const more = [`${count(rows)} rows`, left_out > 0 && `${count(left_out)} left out`].filter(Boolean).join(", ");
      return element("li", {},
        element("code", { textContent: filter ? `${ask}: ${filter}` : ask }),
        element("span", { className: "more", textContent: more }),
        button("✕", `Remove the question ${ask}`, () => this.act(() => remove(`/questions/${id}`))));
    });
  }

  add({ rows }) {
    const made = rows.map((row) => element("li", { textContent: line(row), title: line(row) }));
    this.rows.prepend(...made.reverse());
    while (this.rows.children.length > ROWS_MAX) this.rows.lastElementChild.remove();
  }
}
