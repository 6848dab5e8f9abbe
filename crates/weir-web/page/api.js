// Asks the server. Answers of recorders are untrusted text: nothing here makes markup of them.

const BASE = "/api/v1";
const TOKEN = "weir-token";
const asking = { open: null };

export class Refused extends Error {
  constructor(status, body) {
    super(body.error || `status ${status}`);
    Object.assign(this, { status, position: body.position, hint: body.hint });
  }
}

// The address that the recorder prints has the token behind `#`, which browsers send to nobody. It leaves the
// address bar at once.
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem(TOKEN, given);
  history.replaceState(null, "", location.pathname + location.search);
}

function head() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

// Asks the person for the token, once for all requests that wait for it.
function askForToken(isWrong) {
  asking.open ??= new Promise((resolve) => {
    const dialog = document.getElementById("token");
    const [input, said] = [dialog.querySelector("input"), dialog.querySelector(".said")];
    said.textContent = isWrong ? "The token is wrong." : "";
    input.value = "";
    dialog.addEventListener("close", () => {
      if (input.value) sessionStorage.setItem(TOKEN, input.value);
      input.value = "";
      asking.open = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking.open;
}

async function send(path, options) {
  for (;;) {
    const used = sessionStorage.getItem(TOKEN);
    const response = await fetch(BASE + path, { ...options, headers: { ...head(), ...options.headers } });
    if (response.status !== 401) return response;
    if (sessionStorage.getItem(TOKEN) === used) {
      sessionStorage.removeItem(TOKEN);
      await askForToken(used !== null);
    }
  }
}

async function checked(response) {
  if (response.ok) return response;
  let body = {};
  try { body = await response.json(); } catch { /* the status says enough */ }
  throw new Refused(response.status, body);
}

export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? "?" + new URLSearchParams(given) : "";
}

export async function get(path, values = {}, signal = undefined) {
  return (await checked(await send(path + query(values), { signal }))).json();
}

export async function post(path, body) {
  const options = { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return (await checked(await send(path, options))).json();
}

export async function remove(path) {
  await checked(await send(path, { method: "DELETE" }));
}

// Saves a file. The browser fetches the file by a link, which cannot have headers: gigabytes go to the disk and
// not through the memory of the page.
export async function download(path, values, name) {
  const link = document.createElement("a");
  const token = sessionStorage.getItem(TOKEN);
  link.href = BASE + path + query(token ? { ...values, token } : values);
  link.download = name;
  link.click();
}

// Reads the stream of events for ever. `hear` gets the type and the data of each; `state` is told "on" and "off".
export async function listen(hear, state) {
  for (;;) {
    try {
      const response = await checked(await send("/events", {}));
      state("on");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const events = text.split("\n\n");
        text = events.pop();
        for (const event of events) {
          const lines = Object.fromEntries(event.split("\n").map((line) => {
            const at = line.indexOf(": ");
            return [line.slice(0, at), line.slice(at + 2)];
          }));
          if (lines.data) hear(lines.event, JSON.parse(lines.data));
        }
      }
    } catch { /* the server is gone: it may come back */ }
    state("off");
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}
