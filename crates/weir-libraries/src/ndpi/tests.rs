use super::*;

/// A detector; `None`, with a message, if the library is missing.
fn detector() -> Option<Detector> {
    let detector = Detector::load();
    if let Err(missing) = &detector {
        eprintln!("skipped: {missing}");
    }
    detector.ok()
}

/// An IPv4 packet over UDP.
fn udp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let length = 28 + payload.len() as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend((length - 20).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

/// An IPv4 packet over TCP to port 80.
fn tcp(payload: &[u8]) -> Vec<u8> {
    let mut packet = udp([40000, 80], &[&[0; 12], payload].concat());
    packet[9] = 6;
    packet[24..40].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0]);
    packet
}

/// A query for the address of `example.com`.
const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01";

#[test]
fn a_query_is_dns_and_names_are_texts() {
    let Some(mut detector) = detector() else { return };
    let mut flow = detector.begin(Transport::Udp).expect("there is memory");
    detector.process(&mut flow, &udp([40000, 53], QUERY), 1_000);
    let found = detector.finish(&mut flow);
    assert_eq!(detector.name(&found, &mut Name::default()), "DNS");
    assert_eq!(detector.category(&found), "Network");
    assert!(flow.is_final() && !found.is_guessed && found.risks.is_empty(), "{found:?}");
    let again = detector.finish(&mut flow);
    assert_eq!(again, found, "a final result stays");
}

#[test]
fn a_flow_of_unknown_bytes_is_inspected_for_a_bounded_number_of_packets() {
    let Some(mut detector) = detector() else { return };
    let mut flow = detector.begin(Transport::Udp).expect("there is memory");
    let packet = udp([40000, 40001], &[0xa5; 40]);
    for number in 0..UDP_PACKETS_MAX {
        detector.process(&mut flow, &packet, u64::from(number));
        assert!(!flow.is_final(), "packet {number}");
    }
    detector.skip(&mut flow);
    assert!(flow.is_final(), "after {UDP_PACKETS_MAX} packets");
    let found = detector.finish(&mut flow);
    assert_eq!(detector.name(&found, &mut Name::default()), "Unknown");
}

#[test]
fn the_url_of_a_request_is_tested() {
    let Some(mut detector) = detector() else { return };
    let mut risks_of = |path: &str| {
        let mut flow = detector.begin(Transport::Other).expect("there is memory");
        let request = format!("GET {path} HTTP/1.1\r\nHost: example.com\r\nUser-Agent: curl/8\r\n\r\n");
        detector.process(&mut flow, &tcp(request.as_bytes()), 0);
        let found = detector.finish(&mut flow);
        detector.risks(found.risks).collect::<Vec<_>>()
    };
    assert_eq!(risks_of("/a?b=<script>alert(1)</script>"), ["XSS Attack"]);
    assert_eq!(risks_of(&format!("/a?b={}", "c".repeat(2_000))), [""; 0]);
    assert_eq!(risks_of("/a?b=\u{e4}"), [""; 0]);
}

#[test]
fn a_guess_is_marked_and_risks_have_names() {
    let Some(mut detector) = detector() else { return };
    let mut flow = detector.begin(Transport::Udp).expect("there is memory");
    detector.process(&mut flow, &udp([40000, 53], &[0xff; 5]), 0);
    let found = detector.finish(&mut flow);
    assert!(found.is_guessed || !found.risks.is_empty(), "{found:?}");
    let all: Risks = (0..64).collect();
    let names: Vec<&str> = detector.risks(all).collect();
    assert_eq!(names.len(), RISKS_END as usize, "{names:?}");
    assert_eq!(names[8], "Weak TLS Cipher");
}

#[test]
fn packets_of_any_bytes_are_taken() {
    let Some(mut detector) = detector() else { return };
    let mut state = 1_u64;
    for length in 0..600_usize {
        let mut flow = detector.begin(Transport::Other).expect("there is memory");
        let mut bytes = vec![0; length];
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 33) as u8;
        }
        if let Some(first) = bytes.first_mut() {
            *first = if length % 2 == 0 { 0x45 } else { 0x60 };
        }
        detector.process(&mut flow, &bytes, 0);
        // Dropped with and without a result.
        if length % 3 == 0 {
            detector.finish(&mut flow);
        }
    }
    let mut flow = detector.begin(Transport::Other).expect("there is memory");
    detector.process(&mut flow, &[0x45; 70_000], 0);
}

#[test]
fn detectors_work_on_several_threads() {
    let Some(_) = detector() else { return };
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(a_query_is_dns_and_names_are_texts);
        }
    });
}

#[test]
fn a_missing_library_names_its_package() {
    let missing =
        library::load("libndpi.so.0.0").map(|_| ()).expect_err("there is no such library").to_string();
    assert!(missing.starts_with("nDPI can't be used: libndpi.so.0.0: "), "{missing}");
    assert!(missing.ends_with("install libndpi4.2"), "{missing}");
}

#[test]
fn another_version_is_refused() {
    assert_eq!(library::check_version("libndpi.so.4.2", "4.2.0", 8668), Ok(()));
    for (version, interface) in [("4.20.1", 8668), ("4.8.0", 10000), ("4.2.0", 8669)] {
        let refused = library::check_version("libndpi.so", version, interface).expect_err("another version");
        let refused = refused.to_string();
        assert!(
            refused.contains(&format!("has version {version}")) && refused.contains("install"),
            "{refused}"
        );
    }
}
