//! A headless Chromium, driven by its DevTools protocol
//! (<https://chromedevtools.github.io/devtools-protocol/>) over two pipes: messages of JSON that end with a
//! zero byte.

use base64::Engine as _;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The names of the program.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    next: u64,
    session: Option<String>,
    /// Errors of the page so far: exceptions, and messages on its console.
    pub errors: Vec<String>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Starts the browser. `None`: it is not installed.
    pub fn start(folder: &Path) -> Option<Self> {
        let is_there = |name: &&&str| {
            Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
        };
        let program = PROGRAMS.iter().find(is_there)?;
        // The protocol is on the descriptors 3 and 4.
        let line = format!(
            "exec {program} --headless=new --no-sandbox --disable-dev-shm-usage --disable-gpu --no-first-run \
             --disable-background-networking --remote-debugging-pipe --user-data-dir={} about:blank 3<&0 4>&1 >/dev/null 2>&1",
            folder.display()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("sh runs");
        let (input, mut output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let (mut all, mut some) = (vec![], vec![0; 1 << 16]);
            while let Ok(count @ 1..) = output.read(&mut some) {
                all.extend_from_slice(&some[..count]);
                while let Some(end) = all.iter().position(|byte| *byte == 0) {
                    let message: Vec<u8> = all.drain(..=end).collect();
                    if let Ok(message) = serde_json::from_slice(&message[..end]) {
                        let _ = sender.send(message);
                    }
                }
            }
        });
        let mut browser = Self { child, input, messages, next: 1, session: None, errors: vec![] };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach)["sessionId"].clone();
        browser.session = session.as_str().map(String::from);
        ["Runtime", "Page", "Log"]
            .iter()
            .for_each(|part| drop(browser.call(&format!("{part}.enable"), json!({}))));
        Some(browser)
    }

    /// Calls a method, and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let text = message.to_string() + "\0";
        self.input.write_all(text.as_bytes()).expect("the browser runs");
        self.input.flush().expect("the browser runs");
        loop {
            let message =
                self.messages.recv_timeout(ANSWER_MAX).unwrap_or_else(|_| panic!("no answer to {method}"));
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        let is_error = match message["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => true,
            "Runtime.consoleAPICalled" => {
                ["error", "warning", "assert"].contains(&params["type"].as_str().unwrap_or_default())
            }
            "Log.entryAdded" => params["entry"]["level"] == "error",
            _ => false,
        };
        if is_error {
            self.errors.push(params.to_string());
        }
    }

    /// Shows a page of this size.
    pub fn open(&mut self, url: &str, (width, height): (u32, u32)) {
        self.resize(width, height);
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_for("document.readyState === 'complete'");
    }

    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    pub fn set_scheme(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// The value of an expression.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, expression: &str) {
        let began = Instant::now();
        while self.value(&format!("Boolean({expression})")) != true {
            let shown = self.value("document.body ? document.body.innerText.slice(0, 3000) : ''");
            assert!(began.elapsed() < ANSWER_MAX, "{expression}: {shown} {:?}", self.errors);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Types a text where the focus is.
    pub fn insert(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Presses a key: `Enter`, `Escape`, `ArrowDown`, `Tab` …
    pub fn key(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "ArrowDown" => 40,
            "ArrowUp" => 38,
            "Tab" => 9,
            _ => 0,
        };
        let mut event = json!({ "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code });
        if key == "Enter" {
            event["text"] = json!("\r");
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", event);
    }

    /// Presses the button of the mouse at a place, and releases it at another.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        let mut mouse = |kind: &str, (x, y): (f64, f64), buttons: u32| {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        };
        mouse("mouseMoved", from, 0);
        mouse("mousePressed", from, 1);
        for step in 1..=5 {
            let part = f64::from(step) / 5.0;
            mouse("mouseMoved", (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part), 1);
        }
        mouse("mouseReleased", to, 0);
    }

    /// The middle, the width and the height of an element.
    pub fn place(&mut self, selector: &str) -> (f64, f64, f64, f64) {
        let rectangle = format!(
            "(() => {{ const r = document.querySelector({selector:?}).getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; }})()"
        );
        let numbers: Vec<f64> = serde_json::from_value(self.value(&rectangle)).expect("four numbers");
        (numbers[0], numbers[1], numbers[2], numbers[3])
    }

    /// Writes what the page shows to `NAME.png`, if the variable WEIR_SCREENSHOTS names a folder.
    pub fn screenshot(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("WEIR_SCREENSHOTS") else { return };
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap_or_default());
        fs::write(Path::new(&folder).join(format!("{name}.png")), bytes.expect("base64"))
            .expect("the folder is there");
    }
}
