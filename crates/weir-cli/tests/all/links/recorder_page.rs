//! The page of a recorder in a browser.

use crate::links::browser::Browser;
use crate::links::http_client::Client;
use crate::links::recorder::name;
use crate::links::{Capturing, FIRST_LIGHT, empty, frames_of, inside, make_pair, scratch, secret, send};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const URL: &str = "http://127.0.0.1:9465/";
const HOSTILE: &str = "<img src=x onerror=window.hacked=1>";

/// The text of the first row of a table.
fn first_row(table: &str) -> String {
    format!("document.querySelector('#{table} tbody tr')?.textContent")
}

fn browser(of: &str) -> Option<Browser> {
    let folder = scratch(&format!("{of}-profile"));
    empty(&folder);
    let started = Browser::start(&folder);
    if started.is_none() {
        eprintln!("skipped: recorder_page::{of} needs chromium (package chromium)");
    }
    started
}

/// Requests with names that are markup: of HTTP, and in the first message of TLS.
fn hostile_traffic() {
    let serve = |port: u16| {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("root may do so");
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            for stream in listener.incoming().take(1) {
                let mut stream = stream.expect("it is open");
                let _ = stream.read(&mut some);
                let body = format!("<title>{HOSTILE}</title>");
                let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            }
        })
    };
    let servers = [serve(80), serve(443)];
    let ask = |port: u16, request: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.write_all(request).expect("it is open");
        let mut answer = vec![];
        let _ = stream.read_to_end(&mut answer);
    };
    ask(
        80,
        format!("GET /{HOSTILE} HTTP/1.1\r\nHost: {HOSTILE}\r\nUser-Agent: {HOSTILE}\r\n\r\n").as_bytes(),
    );
    ask(443, &client_hello(HOSTILE));
    servers.into_iter().for_each(|server| server.join().expect("it ends"));
}

/// The first message of TLS, with this name (RFC 8446, section 4.1.2; RFC 6066, section 3).
fn client_hello(name: &str) -> Vec<u8> {
    let sized = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let entry = [&[0][..], &sized(name.as_bytes())].concat();
    let extension = [&[0, 0][..], &sized(&sized(&entry))].concat();
    let body = [&[3, 3][..], &[7; 32], &[0], &sized(&[0x13, 0x01]), &[1, 0], &sized(&extension)].concat();
    let length = (body.len() as u32).to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    [&[22, 3, 1][..], &sized(&message)].concat()
}

#[test]
fn the_page_shows_asks_and_dumps() {
    if !inside("recorder_page::the_page_shows_asks_and_dumps") {
        return;
    }
    make_pair(0);
    let (name, dumps) = (name("page"), scratch("page-dumps"));
    empty(&dumps);
    let dumps_name = dumps.to_str().expect("text");
    let args = ["record", "-i", "in0", "--name", &name, "--ring", "32M", "--dumps", dumps_name, "--page"];
    let recorder = Capturing::start(&args);
    let Some(mut browser) = browser("the_page_shows_asks_and_dumps") else { return };
    let frames = frames_of(Path::new(FIRST_LIGHT));
    let ends = Arc::<AtomicBool>::default();
    let end = Arc::clone(&ends);
    let sending = std::thread::spawn(move || {
        while !end.load(Ordering::SeqCst) {
            for part in frames.chunks(60) {
                send("out0", part);
                std::thread::sleep(Duration::from_millis(25));
            }
        }
    });
    std::thread::sleep(Duration::from_secs(4));
    browser.open(&recorder.word("http://"), (1280, 1000));
    browser.wait_for("document.querySelector('#link').className === 'on'");
    browser.wait_for("document.querySelectorAll('#connections tbody tr').length > 3");
    for table in ["hosts", "protocols", "names"] {
        browser.wait_for(&first_row(table));
    }
    browser.wait_for("Number.parseFloat(document.querySelector('#rate-packets').textContent) > 0");
    browser.wait_for("document.querySelectorAll('canvas').length === 2");
    std::thread::sleep(Duration::from_secs(6));
    ends.store(true, Ordering::SeqCst);
    sending.join().expect("it ends");
    browser.screenshot("light");

    // A mistake is underlined, and a completion is taken with the keyboard.
    browser.value("document.querySelector('#filter').focus()");
    browser.insert("tcp.prot == 443");
    browser.wait_for("document.querySelector('.backdrop mark')?.textContent === 'tcp.prot'");
    browser.wait_for("document.querySelector('#mistake').textContent.includes('tcp.port')");
    browser.screenshot("mistake");
    browser.key("Escape");
    browser.wait_for("document.querySelector('#completions').hidden");
    browser.key("Escape");
    browser.wait_for("document.querySelector('#filter').value === ''");
    browser.insert("tcp.dstp");
    browser.wait_for("document.querySelector('#completions b')?.textContent === 'tcp.dstport'");
    browser.key("ArrowDown");
    browser.screenshot("completion");
    browser.key("Enter");
    browser.wait_for("document.querySelector('#filter').value === 'tcp.dstport'");
    browser.insert(" == 443");
    browser.wait_for("document.querySelector('#mistake').textContent === ''");
    browser.key("Enter");
    browser.wait_for("[...document.querySelectorAll('#connections tbody tr')].length > 0 && [...document.querySelectorAll('#connections tbody tr')].every((row) => row.cells[2].textContent.endsWith(':443'))");

    // The rows are used with the keyboard: the second connection opens, and Escape closes it.
    browser.value("document.querySelector('#connections tbody tr').focus()");
    browser.key("ArrowDown");
    browser.key("Enter");
    browser.wait_for("document.querySelector('#connection').open && document.querySelector('#streams pre')");
    browser.wait_for("document.querySelector('#sessions dl')");
    browser.screenshot("connection");
    browser.value("document.querySelector('#connection-form').click()");
    browser.wait_for("document.querySelector('#streams pre').textContent.startsWith('00000000  ')");
    browser.key("Escape");
    browser.wait_for("!document.querySelector('#connection').open");
    browser.wait_for("document.activeElement.tagName === 'TR'");
    browser.key("Escape");
    browser.wait_for("document.activeElement.id === 'filter'");

    // A time is dragged in the chart.
    let (left, top, width, height) = browser.place("#timeline .u-over");
    browser.drag((left + width * 0.3, top + height / 2.0), (left + width * 0.7, top + height / 2.0));
    browser.wait_for("/^\\d{4}-\\d\\d-\\d\\d \\d\\d:/.test(document.querySelector('#from').value)");
    browser.wait_for("!document.querySelector('.busy')");
    browser.screenshot("dragged");

    // A trigger and a dump are added by their forms.
    browser.value("document.querySelector('#triggers input').focus()");
    browser.insert("tcp.dstport == 443");
    browser.key("Enter");
    browser.wait_for("document.querySelector('#triggers .list code')?.textContent === 'tcp.dstport == 443'");
    browser.value("document.querySelector('#triggers input').focus()");
    browser.insert("nothing at all");
    browser.key("Enter");
    browser.wait_for("document.querySelector('#triggers .said').textContent !== ''");
    browser.value("document.querySelector('#dumps [name=after]').value = '0'; document.querySelector('#dumps [name=before]').value = '60'");
    browser.value("document.querySelector('#dumps button').click()");
    browser.wait_for("document.querySelector('#dumps .list li')?.textContent.includes('packets')");
    browser.value("document.querySelector('#triggers .list button').click()");
    browser.wait_for("document.querySelectorAll('#triggers .list li').length === 0");
    browser.value("document.querySelector('#questions [name=ask]').value = 'dns'; document.querySelector('#questions button').click()");
    browser.wait_for("document.querySelector('#questions .list code')?.textContent === 'dns'");
    send("out0", &frames_of(Path::new(FIRST_LIGHT)));
    browser.wait_for("document.querySelectorAll('#rows li').length > 0");

    // Dark, and the width of a phone: nothing is wider than the window.
    browser.set_scheme("dark");
    browser.wait_for("matchMedia('(prefers-color-scheme: dark)').matches");
    std::thread::sleep(Duration::from_millis(300));
    browser.screenshot("dark");
    browser.resize(390, 844);
    browser.wait_for("document.documentElement.scrollWidth <= 390");
    std::thread::sleep(Duration::from_millis(300));
    browser.screenshot("phone-dark");
    browser.value("document.querySelector('.controls').scrollIntoView()");
    browser.screenshot("phone-controls");
    browser.set_scheme("light");
    browser.value("scrollTo(0, 0)");
    std::thread::sleep(Duration::from_millis(300));
    browser.screenshot("phone");
    // The server says 400 to mistakes, and the console notes that.
    let errors: Vec<_> = browser.errors.iter().filter(|error| !error.contains("status of 400")).collect();
    assert!(errors.is_empty(), "{errors:?}");
    recorder.end();
}

#[test]
fn hostile_names_are_text() {
    if !inside("recorder_page::hostile_names_are_text") {
        return;
    }
    let (name, token) = (name("hostile"), secret("page-token", "a-token-of-the-test"));
    let token_name = token.to_str().expect("text");
    let args =
        ["record", "-i", "lo", "--name", &name, "--ring", "32M", "--page", "--api-token-file", token_name];
    let recorder = Capturing::start(&args);
    let Some(mut browser) = browser("hostile_names_are_text") else { return };
    hostile_traffic();
    browser.open(URL, (1280, 1000));
    // A wrong token is asked for again.
    for token in ["wrong", "a-token-of-the-test"] {
        browser.wait_for("document.querySelector('#token').open");
        browser.value("document.querySelector('#token input').focus()");
        browser.insert(token);
        browser.key("Enter");
        browser.wait_for(&format!("!document.querySelector('#token').open || {}", token == "wrong"));
        std::thread::sleep(Duration::from_millis(300));
    }
    browser.wait_for("document.querySelector('#link').className === 'on'");
    browser.wait_for("[...document.querySelectorAll('#names tbody tr')].filter((row) => row.cells[0].textContent.includes('<img')).length >= 2");
    browser.value("document.querySelector('#filter').focus()");
    browser.insert("tcp.port == 80");
    browser.key("Enter");
    browser.wait_for("[...document.querySelectorAll('#connections tbody tr')].length === 1");
    browser.value("document.querySelector('#connections tbody tr').click()");
    browser.wait_for("document.querySelector('#sessions')?.textContent.includes('<img') && document.querySelector('#streams')?.textContent.includes('<img')");
    browser.screenshot("hostile");
    assert_eq!(browser.value("document.querySelectorAll('img').length"), 0);
    assert!(browser.value("window.hacked").is_null());
    // What a page could do if markup came through: the policy refuses it.
    browser.value("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=1\">')");
    std::thread::sleep(Duration::from_millis(500));
    assert!(browser.value("window.hacked").is_null(), "the policy refuses scripts in markup");
    let client = Client::new(9465);
    assert_eq!(client.get("/status").status, 401);
    recorder.end();
}
