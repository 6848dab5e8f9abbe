// Tables whose rows are used with the keyboard, and the forms of numbers.

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

export function scaled(number) {
  if (number === undefined || number === null) return "";
  const unit = UNITS.find(([factor]) => Math.abs(number) >= factor);
  if (!unit) return String(Math.round(number * 100) / 100);
  const value = number / unit[0];
  return value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2) + " " + unit[1];
}

export const count = (number) => (number === undefined ? "" : number.toLocaleString("en").replaceAll(",", "\u202f"));
export const bytes = (number) => (number === undefined || number === null ? "" : scaled(number) + (Math.abs(number) < 1e3 ? " B" : "B"));

export function time(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, 23);
}

export function moment(seconds) {
  return new Date(seconds * 1000).toISOString().slice(0, 23).replace("T", " ");
}

export function duration(seconds) {
  if (seconds === undefined || seconds === null) return "";
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 2 : 0)} ms`;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(1)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86400).toFixed(1)} d`;
}

const classes = (column) => ["number", "mono", "minor"].filter((name) => column[name]).join(" ");

// A table in an article. columns: [{ label, text(row), number, mono, minor, sort }]; minor ones are left out on phones.
export class Table {
  constructor(article, columns, { open, sorted } = {}) {
    Object.assign(this, { article, columns, open, sorted });
    this.note = element("span", { className: "note" });
    article.querySelector("h2").append(this.note);
    this.body = element("tbody");
    this.headers = columns.map((column) => this.header(column));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...this.headers)), this.body);
    this.empty = element("p", { className: "empty", textContent: "Nothing yet." });
    article.append(element("div", { className: "scroll" }, table), this.empty);
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.use(event.target.closest("tr")));
  }

  header(column) {
    const cell = element("th", { scope: "col", className: classes(column) });
    if (!column.sort || !this.sorted) {
      cell.textContent = column.label;
      return cell;
    }
    const button = element("button", { type: "button", textContent: column.label });
    button.addEventListener("click", () => {
      const next = this.order === "-" + column.sort ? column.sort : "-" + column.sort;
      this.mark(next);
      this.sorted(next);
    });
    cell.append(button);
    return cell;
  }

  // Shows by which column the rows are sorted.
  mark(order) {
    this.order = order;
    this.columns.forEach((column, index) => {
      const isThis = column.sort && (order === column.sort || order === "-" + column.sort);
      if (isThis) this.headers[index].setAttribute("aria-sort", order.startsWith("-") ? "descending" : "ascending");
      else this.headers[index].removeAttribute("aria-sort");
    });
  }

  busy() {
    this.article.classList.add("busy");
  }

  show(rows, note) {
    this.rows = rows;
    const made = rows.map((row, index) => {
      const cells = this.columns.map((column) => {
        const text = column.text(row) ?? "";
        return element("td", { textContent: text, className: classes(column), title: String(text).length > 30 ? text : "" });
      });
      const line = element("tr", {}, ...cells);
      line.dataset.index = index;
      if (this.open) line.tabIndex = index === 0 ? 0 : -1;
      return line;
    });
    this.body.replaceChildren(...made);
    this.article.classList.remove("busy");
    this.empty.hidden = rows.length > 0;
    this.empty.textContent = "Nothing in this time.";
    this.note.textContent = note ?? "";
  }

  failed(text) {
    this.show([], "");
    this.empty.textContent = text;
  }

  use(line) {
    if (line && this.open) this.open(this.rows[line.dataset.index]);
  }

  key(event) {
    const line = event.target.closest("tr");
    const next = {
      ArrowDown: line?.nextElementSibling,
      ArrowUp: line?.previousElementSibling,
      Home: this.body.firstElementChild,
      End: this.body.lastElementChild,
    }[event.key];
    if (event.key === "Enter" || event.key === " ") this.use(line);
    else if (event.key === "Escape") document.getElementById("filter").focus();
    else if (next) {
      line.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else if (!["ArrowDown", "ArrowUp"].includes(event.key)) return;
    event.preventDefault();
  }
}
