// The field for filters: completions while typing, and mistakes underlined.

import { get } from "./api.js";
import { element } from "./tables.js";

const DELAY_MS = 120;

// Places of the server count bytes of UTF-8, those of scripts units of UTF-16.
export function indexOfByte(text, byte) {
  let bytes = 0;
  let index = 0;
  for (const letter of text) {
    if (bytes >= byte) break;
    bytes += new TextEncoder().encode(letter).length;
    index += letter.length;
  }
  return index;
}

export class FilterField {
  constructor(input, said) {
    Object.assign(this, { input, said, list: document.getElementById("completions"), chosen: -1, found: [] });
    this.backdrop = input.parentElement.querySelector(".backdrop span");
    input.addEventListener("input", () => this.changed());
    input.addEventListener("keydown", (event) => this.key(event));
    input.addEventListener("scroll", () => this.scroll());
    input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    this.list.addEventListener("mousedown", (event) => {
      event.preventDefault();
      const item = event.target.closest("li");
      if (item) this.take([...this.list.children].indexOf(item));
    });
  }

  get value() {
    return this.input.value.trim();
  }

  set value(text) {
    this.input.value = text;
    this.close();
    this.check();
  }

  changed() {
    this.show([]);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.check();
      this.complete();
    }, DELAY_MS);
  }

  // Asks the server about the text, unless it has changed meanwhile.
  async ask(path, values) {
    const text = this.input.value;
    try {
      const answer = await get(path, values);
      return text === this.input.value ? answer : null;
    } catch {
      return null;
    }
  }

  async check() {
    const text = this.input.value;
    if (!text.trim()) return this.show([]);
    // An empty text is no parameter.
    const answer = await this.ask("/check", { filter: text });
    if (answer) this.show(answer.mistakes.map((one) => ({ ...one, span: [one.start, one.end] })));
  }

  // Shows mistakes: [{ message, hint, span: [byte, byte] }]
  show(mistakes) {
    const text = this.input.value;
    const parts = [];
    let at = 0;
    for (const { span } of mistakes.filter((one) => one.span).sort((a, b) => a.span[0] - b.span[0])) {
      const [start, end] = span.map((byte) => indexOfByte(text, byte));
      const from = Math.max(at, Math.min(start, text.length - 1));
      const to = Math.max(from + 1, end);
      parts.push(text.slice(at, from), element("mark", { textContent: text.slice(from, to) || " " }));
      at = to;
    }
    this.backdrop.replaceChildren(...parts, text.slice(at));
    this.input.setAttribute("aria-invalid", String(mistakes.length > 0));
    const first = mistakes[0];
    this.said.textContent = first ? [first.message, first.hint].filter(Boolean).join(" – ") : "";
    this.scroll();
  }

  scroll() {
    this.backdrop.parentElement.scrollLeft = this.input.scrollLeft;
  }

  async complete() {
    if (document.activeElement !== this.input) return;
    const before = this.input.value.slice(0, this.input.selectionStart);
    if (!before.trim()) return this.close();
    const at = new TextEncoder().encode(before).length;
    const answer = await this.ask("/complete", { filter: this.input.value, at });
    if (!answer || document.activeElement !== this.input) return;
    const word = this.input.value.slice(indexOfByte(this.input.value, answer.start), this.input.selectionStart);
    this.start = answer.start;
    this.found = answer.completions.filter((one) => one.name !== word);
    const items = this.found.map(({ name, type, doc }, index) => {
      const parts = [element("b", { textContent: name }), element("i", { textContent: type }), element("span", { textContent: doc })];
      const item = element("li", { id: `completion-${index}` }, ...parts);
      item.setAttribute("role", "option");
      return item;
    });
    this.list.replaceChildren(...items);
    this.choose(-1);
    this.list.hidden = items.length === 0;
    this.input.setAttribute("aria-expanded", String(items.length > 0));
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  choose(index) {
    this.chosen = index;
    [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === index)));
    const item = this.list.children[index];
    if (item) {
      item.scrollIntoView({ block: "nearest" });
      this.input.setAttribute("aria-activedescendant", item.id);
    } else this.input.removeAttribute("aria-activedescendant");
  }

  take(index) {
    const text = this.input.value;
    const from = indexOfByte(text, this.start);
    const name = this.found[index].name;
    this.input.value = text.slice(0, from) + name + text.slice(this.input.selectionStart);
    this.input.setSelectionRange(from + name.length, from + name.length);
    this.close();
    this.changed();
  }

  key(event) {
    if (this.list.hidden) {
      if (event.key === "Escape" && this.input.value) this.value = "";
      return;
    }
    const length = this.found.length;
    if (event.key === "ArrowDown") this.choose((this.chosen + 1) % length);
    else if (event.key === "ArrowUp") this.choose(this.chosen > 0 ? this.chosen - 1 : length - 1);
    else if (event.key === "Escape") this.close();
    else if ((event.key === "Enter" || event.key === "Tab") && this.chosen >= 0) this.take(this.chosen);
    else return;
    event.preventDefault();
  }
}
