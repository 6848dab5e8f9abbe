// One connection: its rows of all logs, and its bytes.

import { download, get } from "./api.js";
import { bytes, element, moment } from "./tables.js";

// Columns that the title already has.
const KNOWN = new Set(["uid", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto"]);
const LINE = 16;

export class ConnectionDialog {
  constructor() {
    this.dialog = document.getElementById("connection");
    const at = (name) => document.getElementById(name);
    Object.assign(this, { title: at("connection-title"), sessions: at("sessions"), streams: at("streams"), about: at("streams-about") });
    this.form = at("connection-form");
    at("connection-close").addEventListener("click", () => this.dialog.close());
    this.form.addEventListener("click", () => {
      this.isHex = !this.isHex;
      this.form.setAttribute("aria-pressed", String(this.isHex));
      this.showParts();
    });
    at("connection-download").addEventListener("click", () => {
      this.download().catch((error) => { this.about.textContent = error.message; });
    });
  }

  download() {
    const { uid } = this.row;
    return download(`/flows/${encodeURIComponent(uid)}/packets`, this.times, `${uid}.pcapng`);
  }

  // Shows the connection of a row. `times` are those of the question.
  async open(row, times) {
    Object.assign(this, { row, times, parts: [], isHex: this.isHex ?? false });
    const end = (side) => `${row[`id.${side}_h`]}:${row[`id.${side}_p`]}`;
    this.title.textContent = `${row.proto} ${end("orig")} → ${end("resp")}  ${row.service ?? ""}  ${row.uid}`;
    this.sessions.replaceChildren(element("p", { className: "empty", textContent: "Reading …" }));
    this.streams.replaceChildren();
    this.about.textContent = "Reading …";
    if (!this.dialog.open) this.dialog.showModal();
    const path = `/flows/${encodeURIComponent(row.uid)}`;
    const isThis = () => this.row === row;
    const tell = (place) => (error) => { if (isThis()) place.textContent = error.message; };
    await Promise.all([
      get(path + "/sessions", times).then((answer) => isThis() && this.showSessions(answer)).catch(tell(this.sessions)),
      get(path + "/streams", times).then((answer) => {
        if (!isThis()) return;
        this.parts = answer.parts;
        const cut = answer.parts.some((part) => part.offset + atob(part.data).length >= answer.bytes_max);
        const more = [
          cut && `only the first ${bytes(answer.bytes_max)} of each direction`,
          !answer.complete && "not complete",
          ...answer.notes,
        ].filter(Boolean).map((text) => `; ${text}`);
        const side = (name) => element("b", { className: name, textContent: answer[name] });
        this.about.replaceChildren(side("orig"), " sends, ", side("resp"), " answers", ...more);
        this.showParts();
      }).catch(tell(this.about)),
    ]);
  }

  showSessions({ rows, notes }) {
    const lists = rows.map((row) => {
      const pairs = Object.entries(row).filter(([name]) => !KNOWN.has(name)).flatMap(([name, value]) => {
        const text = name === "ts" ? moment(value) : typeof value === "object" ? JSON.stringify(value) : String(value);
        return [element("dt", { textContent: name }), element("dd", { textContent: text })];
      });
      return element("dl", {}, ...pairs);
    });
    const none = element("p", { className: "empty", textContent: "No session of a known protocol." });
    this.sessions.replaceChildren(...(lists.length ? lists : [none]), ...notes.map((text) => element("p", { className: "note", textContent: text })));
  }

  showParts() {
    const blocks = this.parts.flatMap(({ is_orig, offset, missing, data }) => {
      const raw = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
      const text = this.isHex ? hex(raw, offset) : printable(raw);
      const made = [];
      if (missing) made.push(element("pre", { className: "gap", textContent: `${missing} bytes are missing` }));
      if (raw.length) made.push(element("pre", { className: is_orig ? "orig" : "resp", textContent: text }));
      return made;
    });
    const none = element("p", { className: "empty", textContent: "No bytes." });
    this.streams.replaceChildren(...(blocks.length ? blocks : [none]));
  }
}

function printable(raw) {
  const letter = (byte) => (byte === 10 || byte === 9 || (byte >= 32 && byte < 127) ? String.fromCharCode(byte) : byte === 13 ? "" : "·");
  return Array.from(raw, letter).join("");
}

function hex(raw, offset) {
  const lines = [];
  for (let at = 0; at < raw.length; at += LINE) {
    const part = raw.subarray(at, at + LINE);
    const numbers = Array.from(part, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = Array.from(part, (byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${(offset + at).toString(16).padStart(8, "0")}  ${numbers.padEnd(LINE * 3)} ${letters}`);
  }
  return lines.join("\n");
}
