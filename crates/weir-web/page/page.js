// The page: the time and the filter that all tables are about, and what updates them.

import { download, get, listen } from "./api.js";
import { Live, Timeline } from "./charts.js";
import { ConnectionDialog } from "./connection.js";
import { Dumps, Questions, Triggers } from "./controls.js";
import { FilterField } from "./filter.js";
import { Table, bytes, count, duration, moment, scaled, time } from "./tables.js";

const ROWS = 200;
const TOP = 50;
const TIMELINE_MS = 5000;
const at = (id) => document.getElementById(id);

const filter = new FilterField(at("filter"), at("mistake"));
const dialog = new ConnectionDialog();
const [triggers, dumps, questions] = [new Triggers(), new Dumps(), new Questions()];
let order = "-resp_bytes";
let asked = { filter: "", from: "", to: "" };
let stop = new AbortController();
let zoom = {};

// A text in a filter.
const quoted = (text) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
const address = (host) => (host.includes(":") ? `ipv6.addr == ${host}` : `ip.addr == ${host}`);

function narrow(condition) {
  const now = filter.value;
  filter.value = now ? `(${now}) and ${condition}` : condition;
  ask();
}

const end = (side) => (row) => `${row[`id.${side}_h`]}:${row[`id.${side}_p`]}`;
const connections = new Table(at("connections"), [
  { label: "time", text: (row) => time(row.ts), mono: true, minor: true, sort: "ts" },
  { label: "client", text: end("orig"), mono: true, sort: "id.orig_h" },
  { label: "server", text: end("resp"), mono: true, sort: "id.resp_h" },
  { label: "protocol", text: (row) => [row.proto, row.service].filter(Boolean).join(" · "), sort: "service" },
  { label: "sent", text: (row) => bytes(row.orig_bytes), number: true, sort: "orig_bytes" },
  { label: "received", text: (row) => bytes(row.resp_bytes), number: true, sort: "resp_bytes" },
  { label: "packets", text: (row) => count((row.orig_pkts ?? 0) + (row.resp_pkts ?? 0)), number: true, minor: true },
  { label: "duration", text: (row) => duration(row.duration), number: true, sort: "duration" },
  { label: "state", text: (row) => row.conn_state, minor: true },
], {
  open: (row) => dialog.open(row, asked),
  sorted: (next) => {
    order = next;
    askConnections(stop.signal);
  },
});
connections.mark(order);

const hosts = new Table(at("hosts"), [
  { label: "host", text: (row) => row.host, mono: true },
  { label: "sent", text: (row) => bytes(row.sent), number: true },
  { label: "received", text: (row) => bytes(row.received), number: true },
  { label: "connections", text: (row) => count(row.connections), number: true },
], { open: (row) => narrow(address(row.host)) });

const names = new Table(at("names"), [
  { label: "name", text: (row) => row.name, mono: true },
  { label: "in", text: (row) => row.kind },
  { label: "count", text: (row) => count(row.count), number: true },
], { open: (row) => narrow(`${row.field} == ${quoted(row.name)}`) });

const protocols = new Table(at("protocols"), [
  { label: "protocol", text: (row) => [row.proto, row.service].filter(Boolean).join(" · ") },
  { label: "bytes", text: (row) => bytes(row.bytes), number: true },
  { label: "connections", text: (row) => count(row.connections), number: true },
], { open: (row) => narrow(row.service && /^[a-z0-9]+$/.test(row.service) ? row.service : row.proto) });

function note(answer, shown) {
  const parts = [];
  if (answer.total > shown) parts.push(`${count(shown)} of ${count(answer.total)}`);
  if (answer.lost) parts.push(`${count(answer.lost)} packets were gone`);
  if (!answer.complete) parts.push("not complete");
  return [...parts, ...answer.notes].join("; ");
}

// Shows an answer in a table, or why there is none.
async function show(table, work) {
  table.busy();
  try {
    const [rows, about] = await work();
    table.show(rows, about);
  } catch (error) {
    if (error.name === "AbortError") return false;
    table.failed([error.message, error.hint].filter(Boolean).join(" – "));
    throw error;
  }
  return true;
}

function askConnections(signal) {
  return show(connections, async () => {
    const answer = await get("/flows", { ...asked, limit: ROWS, sort: order }, signal);
    return [answer.rows, note(answer, answer.rows.length)];
  });
}

async function aggregate(ask, of, signal) {
  return get("/aggregate", { ...asked, ask, of, limit: 1000 }, signal);
}

async function findHosts(signal) {
  const measures = "sum(orig_ip_bytes) as up, sum(resp_ip_bytes) as down, count() as connections";
  const sides = await Promise.all(["id.orig_h", "id.resp_h"].map((key) => aggregate(`${measures} by ${key} top ${TOP} by down`, "flows", signal)));
  const all = new Map();
  sides.forEach((answer, side) => answer.rows.forEach((row) => {
    const host = row[side ? "id.resp_h" : "id.orig_h"];
    if (!host) return;
    const sum = all.get(host) ?? { host, sent: 0, received: 0, connections: 0 };
    const [up, down] = [row.up ?? 0, row.down ?? 0];
    sum.sent += side ? down : up;
    sum.received += side ? up : down;
    sum.connections += row.connections;
    all.set(host, sum);
  }));
  const rows = [...all.values()].sort((one, other) => other.sent + other.received - one.sent - one.received);
  return [rows.slice(0, TOP), sides.map((answer) => note(answer, answer.rows.length)).find(Boolean)];
}

const NAMES = [["tls", "server_name", "tls.sni"], ["dns", "query", "dns.qry.shown"], ["http", "host", "http.host"]];

async function findNames(signal) {
  const lists = await Promise.all(NAMES.map(async ([kind, column, field]) => {
    const answer = await aggregate(`count() as count by ${column} top ${TOP}`, kind, signal);
    return [answer, answer.rows.filter((row) => row[column]).map((row) => ({ name: row[column], kind, field, count: row.count }))];
  }));
  const rows = lists.flatMap(([, rows]) => rows).sort((one, other) => other.count - one.count);
  return [rows.slice(0, TOP), lists.map(([answer]) => note(answer, answer.rows.length)).find(Boolean)];
}

async function findProtocols(signal) {
  const ask = `sum(orig_ip_bytes) as up, sum(resp_ip_bytes) as down, count() as connections by proto, service top ${TOP} by connections`;
  const answer = await aggregate(ask, "flows", signal);
  const rows = answer.rows.map((row) => ({ ...row, bytes: (row.up ?? 0) + (row.down ?? 0) }));
  return [rows.filter((row) => row.proto).sort((one, other) => other.bytes - one.bytes), note(answer, answer.rows.length)];
}

// Asks all tables again. A question that still runs ends.
async function ask() {
  stop.abort();
  stop = new AbortController();
  const { signal } = stop;
  asked = { filter: filter.value, from: at("from").value.trim(), to: at("to").value.trim() };
  markTime();
  try {
    if (!(await askConnections(signal))) return;
  } catch (error) {
    filter.show([{ message: error.message, hint: error.hint, span: error.position }]);
    [hosts, names, protocols].forEach((table) => table.failed(""));
    return;
  }
  const others = [[hosts, findHosts], [protocols, findProtocols], [names, findNames]];
  for (const [table, find] of others) {
    try {
      if (!(await show(table, () => find(signal)))) return;
    } catch { /* the table says why */ }
  }
}

// Times as the fields have them, in seconds since 1970, if the page knows them.
function seconds(text, now) {
  const before = /^-(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text);
  if (before) return now - before[1] * { ms: 0.001, s: 1, m: 60, h: 3600 }[before[2] ?? "s"];
  const date = Date.parse(text.replace(" ", "T") + "Z");
  return Number.isNaN(date) ? null : date / 1000;
}

let clock = Date.now() / 1000;

function markTime() {
  const [from, to] = [seconds(at("from").value.trim(), clock), at("to").value.trim() ? seconds(at("to").value.trim(), clock) : clock];
  timeline.mark(from !== null && to !== null ? [from, to] : null);
}

const timeline = new Timeline(at("timeline"), (from, to) => {
  at("from").value = moment(from);
  at("to").value = moment(to);
  ask();
});
const live = new Live(at("live"));

async function showTimeline() {
  try {
    timeline.showParts(await get("/timeline", { ...zoom, buckets: Math.max(50, Math.min(600, Math.round(at("timeline").clientWidth / 2))) }));
    markTime();
  } catch { /* the next one comes in seconds */ }
}

function showStatus(status) {
  clock = status.now;
  at("name").textContent = `weir · ${status.name}`;
  at("interfaces").textContent = status.interfaces.join(", ");
  document.title = `${status.name} · weir record`;
  at("packets").textContent = scaled(status.packets);
  at("lost").textContent = count(status.lost);
  at("lost").classList.toggle("bad", status.lost > 0);
  const { first, last } = status.ring;
  at("ring-time").textContent = first === null ? "–" : duration(last - first);
  if (!status.rate) return;
  at("rate-packets").textContent = scaled(status.rate.packets);
  at("rate-bits").textContent = scaled(status.rate.bytes * 8);
  live.add(status);
}

let isDumpListDue = false;
function hear(kind, data) {
  if (kind === "status") showStatus(data);
  else if (kind === "rows") questions.add(data);
  else if (kind === "dump" && !isDumpListDue) {
    isDumpListDue = true;
    setTimeout(() => {
      isDumpListDue = false;
      dumps.refresh();
    }, 500);
  }
}

at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  filter.close();
  ask();
});
at("zoom").addEventListener("click", () => {
  zoom = { from: at("from").value.trim(), to: at("to").value.trim() };
  showTimeline();
});
at("whole").addEventListener("click", () => {
  zoom = {};
  showTimeline();
});
at("download").addEventListener("click", () => {
  const values = { filter: filter.value, from: at("from").value.trim(), to: at("to").value.trim() };
  download("/packets", values, "packets.pcapng").catch((error) => filter.show([{ message: error.message, hint: error.hint, span: error.position }]));
});
document.addEventListener("keydown", (event) => {
  const isTyping = ["INPUT", "TEXTAREA"].includes(event.target.tagName);
  if (event.key === "/" && !isTyping) {
    event.preventDefault();
    filter.input.focus();
  }
});

async function begin() {
  showStatus(await get("/status"));
  listen(hear, (state) => {
    at("link").className = state;
    at("link").textContent = state === "on" ? "live" : "no connection";
    if (state === "on") [triggers, dumps, questions].forEach((list) => list.refresh());
  });
  await showTimeline();
  setInterval(() => { if (!document.hidden) showTimeline(); }, TIMELINE_MS);
  setInterval(() => { if (!document.hidden) questions.refresh(); }, TIMELINE_MS);
  await ask();
}

begin();
