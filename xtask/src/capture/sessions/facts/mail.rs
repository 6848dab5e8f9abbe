//! SMTP, POP3, IMAP, FTP.

use super::{CLIENT, Row, between, cut, read};
use crate::shell::Result;

fn exim() -> Result<Vec<String>> {
    Ok(read("exim/server-main.log")?.lines().map(String::from).collect())
}

/// … <= alice@example.com H=(client.example.com) [192.0.2.10]:47992 P=esmtp S=376 id=level@example.com
/// T="Water level" from <alice@example.com> for bob@example.com
pub fn smtp() -> Result<Vec<Row>> {
    let row = |line: String| {
        vec![
            ("client_port", cut(&line, "]:", " ")),
            ("helo", cut(&line, "H=(", ")")),
            ("from", cut(&line, " from <", ">")),
            ("to", line.rsplit(" for ").next().unwrap_or("").to_string()),
            ("message_id", cut(&line, " id=", " ")),
            ("subject", cut(&line, " T=\"", "\" ")),
            ("protocol", cut(&line, " P=", " ")),
            ("user", cut(&line, " A=plain:", " ")),
            ("tls", cut(&line, " X=", ":")),
            ("server_name", cut(&line, " SNI=", " ")),
        ]
    };
    Ok(exim()?.into_iter().filter(|line| line.contains(" <= ")).map(row).collect())
}

/// H=(client.example.com) [192.0.2.10]:48004 F=<alice@example.com> rejected RCPT <nobody@example.com>: nobody
/// of that …
pub fn smtp_refused() -> Result<Vec<Row>> {
    let row = |line: String| {
        vec![
            ("client_port", cut(&line, "]:", " ")),
            ("from", cut(&line, " F=<", ">")),
            ("to", cut(&line, " rejected RCPT <", ">")),
            ("reason", cut(&line, ">: ", "\n")),
        ]
    };
    Ok(exim()?.into_iter().filter(|line| line.contains(" rejected RCPT ")).map(row).collect())
}

/// Logins, each with dovecot's message at its end: `pop3-login: Info: Login: user=<bob> method=PLAIN
/// rip=192.0.2.10 rport=45746 mpid=577 TLS`, then `pop3(bob)<577><…>: Info: Disconnected: Logged out top=0/0,
/// retr=1/405, del=0/6, size=2999`.
pub fn boxes() -> Result<Vec<Row>> {
    let log = read("dovecot.log")?;
    let mut rows = vec![];
    for line in log.lines() {
        let let_in = line.contains("-login: Info: Login: ");
        if !let_in && !line.contains("(auth failed, ") {
            continue;
        }
        let (user, process) = (between(line, "user=<", ">"), between(line, "mpid=", " "));
        let end = format!("({user})<{process}>");
        let end = log.lines().find(|line| let_in && line.contains(&end)).unwrap_or("");
        let is_tls = line.split([' ', ',']).any(|word| word == "TLS");
        rows.push(vec![
            ("protocol", if line.contains(" pop3-login: ") { "pop3" } else { "imap" }.to_string()),
            ("client_port", cut(line, "rport=", " ").trim_end_matches(',').to_string()),
            ("user", user.to_string()),
            ("method", cut(line, "method=", " ").trim_end_matches(',').to_string()),
            ("let_in", let_in.to_string()),
            ("tls", is_tls.to_string()),
            ("fetched", cut(end, " retr=", "/")),
            ("deleted", cut(end, " del=", "/")),
            ("expunged", cut(end, " expunged=", " ")),
        ]);
    }
    Ok(rows)
}

/// Commands with the last of their replies. Connections are consecutive; the server's process changes at a
/// login.
pub fn ftp() -> Result<Vec<Row>> {
    let client = format!(": Client \"{}\", \"", CLIENT[0]);
    let (mut rows, mut connection, mut is_tls): (Vec<Row>, u32, bool) = (vec![], 0, false);
    for line in read("vsftpd.log")?.lines() {
        if line.contains("] CONNECT: ") {
            (connection, is_tls) = (connection + 1, false);
        }
        let Some((head, said)) = line.split_once(&client) else { continue };
        let said = said.trim_end_matches('"');
        if head.ends_with("FTP command") {
            let (command, argument) = said.split_once(' ').unwrap_or((said, ""));
            rows.push(vec![
                ("connection", connection.to_string()),
                ("command", command.to_string()),
                ("argument", argument.to_string()),
                ("encrypted", is_tls.to_string()),
            ]);
        } else if head.ends_with("FTP response")
            && let Some(row) = rows.last_mut()
            && !said.starts_with('1')
            && row.len() < 6
            && !said.starts_with("220 ")
        {
            let (code, text) = said.split_at(3.min(said.len()));
            row.extend([
                ("code", code.to_string()),
                ("text", text.trim_start_matches([' ', '-']).to_string()),
            ]);
            is_tls |= row[1].1 == "AUTH" && code == "234";
        }
    }
    Ok(rows)
}

/// Sun Nov 22 07:34:08 2026 1 192.0.2.10 1892 /pub/numbers.txt b _ o a ftp@example.com ftp 0 * c
pub fn ftp_files() -> Result<Vec<Row>> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let columns = [("bytes", 7), ("file", 8), ("direction", 11)];
        columns.iter().map(|&(name, n)| (name, words.get(n).unwrap_or(&"").to_string())).collect()
    };
    Ok(read("xferlog")?.lines().map(row).collect())
}
