//! Reads the logs of servers and clients into `sessions.expect.json`: a list of rows per log.
//!
//! `web.rs`: HTTP, proxies, QUIC, DTLS. `mail.rs`: SMTP, POP3, IMAP, FTP. `net.rs`: DNS, DHCP, NTP, SSH,
//! STUN.

mod mail;
mod net;
mod web;

use crate::capture::logs::{CLIENT, Facts, Log, Row, between, cut, read};
use crate::shell::Result;

/// Reads all logs.
pub fn gather(frames: u64) -> Result<Facts> {
    let log = |name, counts, rows| Log { name, counts, rows };
    let logs = vec![
        log("http", "HTTP requests (nginx, nghttpx)", web::http()?),
        log("http_clients", "HTTP responses (curl)", web::http_clients()?),
        log("proxy", "requests to the proxy (tinyproxy)", web::proxy()?),
        log("proxied_tls", "TLS handshakes behind CONNECT (nginx)", web::proxied_tls()?),
        log("quic", "QUIC connections (aioquic's client)", web::quic()?),
        log("quic_server", "QUIC handshakes (aioquic's server)", web::quic_server()?),
        log("dtls", "DTLS handshakes (openssl)", web::dtls()?),
        log("smtp", "mails taken (exim)", mail::smtp()?),
        log("smtp_refused", "receivers refused (exim)", mail::smtp_refused()?),
        log("mailboxes", "logins to mailboxes (dovecot)", mail::boxes()?),
        log("ftp", "FTP commands (vsftpd)", mail::ftp()?),
        log("ftp_files", "FTP transfers (vsftpd)", mail::ftp_files()?),
        log("ssh", "SSH sessions (ssh)", net::ssh()?),
        log("dns", "DNS queries (dnsmasq)", net::dns()?),
        log("dhcp", "DHCP messages (dnsmasq)", net::dhcp()?),
        log("ntp", "NTP requests (chrony)", net::ntp()?),
        log("stun", "STUN requests (coturn)", net::stun()?),
    ];
    Facts::of(frames, logs)
}
