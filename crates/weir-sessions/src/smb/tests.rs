//! Conversations as ladders: messages of client and server, and the output.

use super::PROTOCOL;
use crate::conversation::rows;
use crate::wire::hex;

const FILE: &[&str] = &["action", "path", "name", "size", "bytes_read", "bytes_written", "status"];

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A header with a body; flag 1 marks a response.
fn message(command: u16, flags: u32, status: u32, number: u8, body: &[u8]) -> Vec<u8> {
    let mut header =
        [&b"\xfeSMB\x40\0\0\0"[..], &status.to_le_bytes(), &command.to_le_bytes(), &[1, 0]].concat();
    header.extend(flags.to_le_bytes());
    header.extend([0, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    header.resize(64, 0);
    [&header, body].concat()
}

/// Messages in a frame.
fn frame(side: char, messages: &[Vec<u8>]) -> String {
    let mut all = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let mut message = message.clone();
        if at + 1 < messages.len() {
            message.resize(message.len().next_multiple_of(8), 0);
            let next = message.len() as u32;
            message[20..24].copy_from_slice(&next.to_le_bytes());
        }
        all.extend(message);
    }
    format!("{side} {}\n", hex(&[&(all.len() as u32).to_be_bytes()[..], &all].concat()))
}

fn ask(command: u16, number: u8, body: &[u8]) -> String {
    frame('>', &[message(command, 0, 0, number, body)])
}

fn answer(command: u16, status: u32, number: u8, body: &[u8]) -> String {
    frame('<', &[message(command, 1, status, number, body)])
}

/// A body of a fixed part and a name; the name's offset and length are stored at `place`.
fn with_name(mut fixed: Vec<u8>, place: usize, name: &[u8]) -> Vec<u8> {
    let at = 64 + fixed.len() as u16;
    fixed[place..place + 2].copy_from_slice(&at.to_le_bytes());
    fixed[place + 2..place + 4].copy_from_slice(&(name.len() as u16).to_le_bytes());
    fixed.extend(name);
    fixed
}

fn negotiated() -> String {
    let mut body = vec![65, 0, 1, 0, 0x11, 3];
    body.resize(64, 0);
    ask(0, 0, &[36, 0, 1, 0]) + &answer(0, 0, 0, &body)
}

fn challenge() -> Vec<u8> {
    let names = [(1_u8, "FILES"), (3, "files.example"), (0, "")];
    let pairs: Vec<u8> = names
        .iter()
        .flat_map(|(kind, name)| {
            let name = utf16(name);
            [vec![*kind, 0, name.len() as u8, 0], name].concat()
        })
        .collect();
    let mut token = [&b"wrapped NTLMSSP\0\x02\0\0\0"[..], &[0; 28]].concat();
    token.extend([pairs.len() as u8, 0, pairs.len() as u8, 0, 48, 0, 0, 0]);
    token.extend(pairs);
    token
}

fn proof() -> Vec<u8> {
    let names = ["EXAMPLE", "bob", "laptop"].map(utf16);
    let mut token = [&b"NTLMSSP\0\x03\0\0\0"[..], &[0; 16]].concat();
    let mut at = 64_u8;
    for name in &names {
        token.extend([name.len() as u8, 0, name.len() as u8, 0, at, 0, 0, 0]);
        at += name.len() as u8;
    }
    token.extend([0; 8]);
    token.extend([1, 0, 0, 0]);
    token.extend(names.concat());
    token
}

fn setup(token: &[u8]) -> Vec<u8> {
    with_name(vec![25, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 12, token)
}

fn setup_answer(token: &[u8]) -> Vec<u8> {
    with_name(vec![9, 0, 0, 0, 0, 0, 0, 0], 4, token)
}

fn logged_in(status: u32) -> String {
    ask(1, 1, &setup(b"NTLMSSP\0\x01\0\0\0"))
        + &answer(1, 0xc000_0016, 1, &setup_answer(&challenge()))
        + &ask(1, 2, &setup(&proof()))
        + &answer(1, status, 2, &setup_answer(b""))
}

fn connected() -> String {
    let path = utf16(r"\\files\docs");
    ask(3, 3, &with_name(vec![9, 0, 0, 0, 0, 0, 0, 0], 4, &path))
        + &answer(3, 0, 3, &[16, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

fn create(name: &str) -> Vec<u8> {
    let mut body = vec![57, 0];
    body.resize(56, 0);
    with_name(body, 44, &utf16(name))
}

fn created(how: u8, size: u8, handle: u8) -> Vec<u8> {
    let mut body = vec![89, 0, 0, 0, how];
    body.resize(88, 0);
    body[48] = size;
    body[64..80].fill(handle);
    body
}

/// A request on a file, with the file id at `place`.
fn for_file(place: usize, handle: u8, more: &[u8]) -> Vec<u8> {
    let mut body = vec![0; place];
    body.extend([handle; 16]);
    body.extend([0; 24]);
    body.extend(more);
    body
}

fn moved(bytes: u8) -> Vec<u8> {
    let mut body = vec![17, 0, 80, 0, bytes, 0, 0, 0];
    body.resize(16 + usize::from(bytes), 0);
    body
}

#[test]
fn a_dialect_a_login_a_share() {
    let names = [
        "command",
        "version",
        "username",
        "domainname",
        "hostname",
        "server_dns_computer_name",
        "path",
        "status",
    ];
    assert_eq!(
        rows(&PROTOCOL, &(negotiated() + &logged_in(0) + &connected()), &names),
        [
            "NEGOTIATE | 3.1.1 | - | - | - | - | - | SUCCESS",
            "SESSION_SETUP | 3.1.1 | bob | EXAMPLE | laptop | files.example | - | SUCCESS",
            r"TREE_CONNECT | 3.1.1 | bob | EXAMPLE | laptop | files.example | \\files\docs | SUCCESS",
        ]
    );
    assert_eq!(
        rows(
            &PROTOCOL,
            &(negotiated() + &logged_in(0xc000_006d)),
            &["username", "status", "success", "smb.auth"]
        )[1..],
        ["bob | LOGON_FAILURE | false | ntlm"]
    );
}

#[test]
fn with_kerberos_the_user_is_not_in_clear() {
    let talk = ask(1, 1, &setup(b"\x60\x82 \x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02 ticket"))
        + &answer(1, 0, 1, &setup_answer(b""));
    assert_eq!(rows(&PROTOCOL, &talk, &["username", "smb.auth", "smb.guest"]), ["- | kerberos | false"]);
    let guest = with_name(vec![9, 0, 1, 0, 0, 0, 0, 0], 4, b"");
    let talk = ask(1, 1, &setup(&proof())) + &answer(1, 0, 1, &guest);
    assert_eq!(rows(&PROTOCOL, &talk, &["username", "smb.guest"]), ["bob | true"]);
}

#[test]
fn a_file_is_one_row_from_open_to_close() {
    let talk = negotiated()
        + &logged_in(0)
        + &connected()
        + &ask(5, 4, &create("a.txt"))
        + &answer(5, 0, 4, &created(1, 9, 0x11))
        + &ask(8, 5, &for_file(16, 0x11, b""))
        + &ask(8, 6, &for_file(16, 0x11, b""))
        + &answer(8, 0x103, 5, &[9, 0, 0, 0, 0, 0, 0, 0])
        + &answer(8, 0, 6, &moved(4))
        + &answer(8, 0, 5, &moved(5))
        + &ask(8, 7, &for_file(16, 0x11, b""))
        + &answer(8, 0xc000_0011, 7, &moved(0))
        + &ask(9, 8, &for_file(16, 0x11, &[7; 100]))
        + &answer(9, 0, 8, &moved(100)[..16])
        + &ask(6, 9, &for_file(8, 0x11, b""))
        + &answer(6, 0, 9, &[60, 0, 0, 0, 0, 0, 0, 0])
        + &ask(5, 10, &create("none"))
        + &answer(5, 0xc000_0034, 10, &[9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        rows(&PROTOCOL, &talk, FILE)[3..],
        [
            r"open,read,write,close | \\files\docs | a.txt | 100 | 9 | 100 | SUCCESS",
            r"- | \\files\docs | none | - | 0 | 0 | OBJECT_NAME_NOT_FOUND",
        ]
    );
}

#[test]
fn a_file_is_renamed_and_deleted() {
    let rename = [&[0; 16][..], &[10, 0, 0, 0], &utf16("b.txt")].concat();
    let mut set = for_file(16, 0x22, b"")[..32].to_vec();
    set[2..4].copy_from_slice(&[1, 10]);
    set[8..10].copy_from_slice(&96_u16.to_le_bytes());
    let mut delete = set.clone();
    delete[3] = 13;
    let talk = ask(5, 4, &create("a.txt"))
        + &answer(5, 0, 4, &created(2, 0, 0x22))
        + &ask(17, 5, &[&set[..], &rename].concat())
        + &answer(17, 0, 5, &[2, 0])
        + &ask(17, 6, &[&delete[..], &[1]].concat())
        + &answer(17, 0, 6, &[2, 0]);
    assert_eq!(
        rows(&PROTOCOL, &talk, &["action", "name", "prev_name", "smb.success"]),
        ["create,rename,delete | b.txt | a.txt | true"]
    );
}

#[test]
fn compounded_requests_mean_the_file_before() {
    let ask = frame(
        '>',
        &[
            message(5, 0, 0, 4, &create("d")),
            message(14, 4, 0, 5, &for_file(8, 0xff, b"")),
            message(6, 4, 0, 6, &for_file(8, 0xff, b"")),
        ],
    );
    let mut close = vec![60, 0, 1, 0];
    close.resize(60, 0);
    close[48] = 77;
    let answer = frame(
        '<',
        &[
            message(5, 1, 0, 4, &created(1, 0, 0x33)),
            message(14, 5, 0, 5, &[9, 0, 0, 0, 0, 0, 0, 0]),
            message(6, 5, 0, 6, &close),
        ],
    );
    assert_eq!(rows(&PROTOCOL, &(ask + &answer), &["action", "name", "size"]), ["open,list,close | d | 77"]);
}

#[test]
fn of_the_old_protocol_the_dialect_is_told() {
    let old = |flags: u8, rest: &[u8]| {
        let mut message = [&b"\xffSMB\x72\0\0\0\0"[..], &[flags]].concat();
        message.resize(32, 0);
        message.extend(rest);
        hex(&[&(message.len() as u32).to_be_bytes()[..], &message].concat())
    };
    let offer = old(0x18, b"\0\x18\0\x02NT LM 0.12\0\x02SMB 2.???\0");
    let talk = format!("> {offer}\n< {}\n", old(0x98, &[17, 0, 0, 3]));
    assert_eq!(rows(&PROTOCOL, &talk, &["command", "version"]), ["NEGOTIATE | NT LM 0.12"]);
    let mut wild = vec![65, 0, 1, 0, 0xff, 2];
    wild.resize(64, 0);
    let talk = format!("> {offer}\n") + &answer(0, 0, 0, &wild) + &negotiated();
    assert_eq!(rows(&PROTOCOL, &talk, &["version", "rtt"]), ["3.1.1 | 3000000"]);
}

#[test]
fn what_is_encrypted_is_counted() {
    let talk = negotiated() + "> 00000005 fd\"SMB\"00\n< 00000006 fd\"SMB\"0000\n< 00000005 fc\"SMB\"00\n";
    assert_eq!(
        rows(&PROTOCOL, &talk, &["command", "version", "smb.messages"])[1..],
        ["ENCRYPTED | 3.1.1 | 2", "COMPRESSED | 3.1.1 | 1"]
    );
}

#[test]
fn a_session_of_netbios_goes_before() {
    let talk = "> 81000044 20\"CKFDENECFDEFFCFGEFFCCACACACACACA\"00 20\"EGFCEFECENECDACACACACACACACACACA\"00\n< 82000000\n";
    assert_eq!(rows(&PROTOCOL, &(talk.to_owned() + &negotiated()), &["version"]), ["3.1.1"]);
}

#[test]
fn one_side_alone() {
    let client = ask(0, 0, &[36, 0, 1, 0]) + &ask(1, 2, &setup(&proof())) + &ask(5, 4, &create("a.txt"));
    assert_eq!(
        rows(&PROTOCOL, &client, &["command", "username", "name", "status"]),
        ["NEGOTIATE | - | - | -", "SESSION_SETUP | bob | - | -", "CREATE | - | a.txt | -"]
    );
    let server = answer(1, 0xc000_0016, 1, &setup_answer(&challenge()))
        + &answer(1, 0, 2, &setup_answer(b""))
        + &answer(5, 0, 4, &created(1, 9, 0x11));
    assert_eq!(
        rows(&PROTOCOL, &server, &["command", "server_nb_computer_name", "size"]),
        ["SESSION_SETUP | FILES | -", "CREATE | FILES | 9"]
    );
}

#[test]
fn after_a_gap_the_next_message_is_found() {
    let before =
        ask(5, 4, &create("a")) + "< gap 50\n< 000000 ff 01020304\n" + &answer(5, 0, 4, &created(1, 9, 1));
    assert_eq!(rows(&PROTOCOL, &before, &["name", "size"]), ["a | 9"]);
    // A gap within read data is harmless.
    let read = message(
        8,
        1,
        0,
        5,
        &[&[17, 0, 80, 0, 0x88, 0x13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[7; 5000]].concat(),
    );
    let inside = ask(5, 4, &create("a"))
        + &answer(5, 0, 4, &created(1, 9, 1))
        + &ask(8, 5, &for_file(16, 1, b""))
        + &format!("< {}{}\n< gap 100\n", hex(&(read.len() as u32).to_be_bytes()), hex(&read[..4500]))
        + &format!("< {}\n", hex(&read[4600..]))
        + &ask(6, 6, &for_file(8, 1, b""))
        + &answer(6, 0, 6, &[60, 0, 0, 0]);
    assert_eq!(rows(&PROTOCOL, &inside, &["action", "bytes_read"]), ["open,read,close | 5000"]);
}

#[test]
fn what_is_kept_is_bounded() {
    use crate::{Data, Direction, SessionParser};
    use weir_packet::Timestamp;
    let before = weir_memory::live_bytes();
    let mut parser = super::SmbParser::default();
    let mut sessions = Vec::new();
    for number in 0..1000_u32 {
        let handle = (number % 251) as u8;
        for (from, flags, body) in [
            (Direction::Originator, 0, create(&"\u{fffd}".repeat(300))),
            (Direction::Responder, 1, created(1, 9, handle)),
            (Direction::Originator, 0, setup(&proof())),
        ] {
            let command = if body[0] == 25 { 1 } else { 5 };
            let message = message(command, flags, 0, handle, &body);
            let bytes = [&(message.len() as u32).to_be_bytes()[..], &message].concat();
            let data = Data { from, time: Timestamp(0), bytes: &bytes, is_datagram: false };
            parser.parse(&data, &mut sessions);
            sessions.clear();
            assert!(weir_memory::live_bytes() - before < crate::conversation::HELD_BYTES_MAX);
        }
    }
    assert!(parser.cut_off().sessions > 0);
}

#[test]
fn contents_are_passed_on_however_they_are_cut() {
    use crate::content::tests::InMemory;
    use crate::files::File;
    use crate::{Contents, Data, Direction, SessionParser};
    use std::sync::Arc;
    use weir_packet::Timestamp;

    let (handle, data) = ([9_u8; 16], (0..9000_u32).map(|number| (number % 251) as u8).collect::<Vec<u8>>());
    let moved = |command: u16, offset: u64, bytes: &[u8]| {
        let mut ask = vec![49, 0, 112, 0];
        ask.extend((bytes.len() as u32).to_le_bytes());
        ask.extend(offset.to_le_bytes());
        ask.extend(handle);
        ask.resize(48, 0);
        let mut answer = vec![17, 0, 80, 0];
        answer.extend((bytes.len() as u32).to_le_bytes());
        answer.resize(16, 0);
        match command {
            8 => (ask, [&answer[..], bytes].concat()),
            _ => ([&ask[..], bytes].concat(), answer),
        }
    };
    let framed = |message: Vec<u8>| [&(message.len() as u32).to_be_bytes()[..], &message].concat();
    let mut said: Vec<(Direction, Vec<u8>)> = vec![];
    let mut turn = |command: u16, number: u8, (ask, answer): (Vec<u8>, Vec<u8>)| {
        said.push((Direction::Originator, framed(message(command, 0, 0, number, &ask))));
        said.push((Direction::Responder, framed(message(command, 1, 0, number, &answer))));
    };
    let mut opened = created(1, 0, 0);
    opened[48..56].copy_from_slice(&9000_u64.to_le_bytes());
    opened[64..80].copy_from_slice(&handle);
    let closed = || {
        let mut ask = vec![24, 0, 0, 0, 0, 0, 0, 0];
        ask.extend(handle);
        (ask, vec![60, 0, 0, 0])
    };
    turn(5, 1, (create("a.bin"), opened));
    turn(8, 2, moved(8, 0, &data[..5000]));
    // Again, and the rest.
    turn(8, 3, moved(8, 100, &data[100..300]));
    turn(8, 4, moved(8, 5000, &data[5000..]));
    turn(9, 5, moved(9, 0, &data[..6000]));
    turn(6, 6, closed());
    for piece_bytes in [7, 1460, 100_000] {
        let store = Arc::<InMemory>::default();
        let (mut parser, mut sessions) = (super::SmbParser::new(&Contents(Some(store.clone()))), vec![]);
        for (from, bytes) in &said {
            for bytes in bytes.chunks(piece_bytes) {
                let data = Data { from: *from, time: Timestamp(0), bytes, is_datagram: false };
                parser.parse(&data, &mut sessions);
            }
        }
        assert!(store.all() == [data.clone(), data[..6000].to_vec()], "in pieces of {piece_bytes}");
        let files = super::files(&*sessions[0]);
        for (file, length) in files.iter().zip([9000, 6000]) {
            let facts = file.as_any().downcast_ref::<File>().and_then(File::facts).expect("a content");
            assert!(facts.sha256.is_some() && !facts.is_cut && facts.size_bytes == length, "{facts:?}");
        }
        assert_eq!(files.len(), 2);
    }
}

#[test]
fn an_executable_that_is_read_or_written_has_a_head() {
    let head = crate::pe::tests::executable(128);
    let long = [&head[..], &[7; 9000]].concat();
    let read = |number: u8, offset: u8, data: &[u8]| {
        let mut asked = for_file(16, 0x11, b"");
        asked[8] = offset;
        let answered = [&[17, 0, 80, 0][..], &(data.len() as u32).to_le_bytes(), &[0; 8], data].concat();
        ask(8, number, &asked) + &answer(8, 0, number, &answered)
    };
    let write = |number: u8, data: &[u8]| {
        let mut asked = for_file(16, 0x11, b"");
        asked.resize(48, 0);
        asked[..8].copy_from_slice(&[&[49, 0, 112, 0][..], &(data.len() as u32).to_le_bytes()].concat());
        ask(9, number, &[&asked[..], data].concat()) + &answer(9, 0, number, &moved(9))
    };
    let heads = |operations: &str| -> Vec<bool> {
        let talk = ask(5, 4, &create("a.exe")) + &answer(5, 0, 4, &created(1, 9, 0x11)) + operations;
        let mut parser = super::SmbParser::default();
        let mut sessions: Vec<Box<dyn crate::Session>> = vec![];
        for step in crate::conversation::Conversation::parse(&talk).steps {
            let crate::conversation::Act::Send(bytes) = step.act else { continue };
            let data = crate::Data { from: step.from, time: step.time, bytes: &bytes, is_datagram: false };
            crate::SessionParser::parse(&mut parser, &data, &mut sessions);
        }
        crate::SessionParser::finish(&mut parser, &mut sessions);
        let files = super::files(&*sessions[0]);
        let has_head = |file: &dyn crate::Session| {
            let file = file.as_any().downcast_ref::<crate::files::File>().expect("a file");
            file.executable.as_ref().is_some_and(|head| head.optional.is_some())
        };
        files.iter().map(|file| has_head(&**file)).collect()
    };
    assert_eq!(heads(&read(5, 0, &head)), [true]);
    assert_eq!(heads(&read(5, 0, &long)), [true], "longer than what is kept of a message");
    assert_eq!(heads(&read(5, 9, &head)), [false], "not at the begin of the file");
    assert_eq!(heads(&(read(5, 0, b"text") + &write(6, &head))), [false, true]);
}
