use super::*;

fn literal(text: &str) -> Literal {
    Literal { bytes: text.into(), ignore_case: false }
}

/// The library is not installed everywhere; the test runs only where it is.
fn database(literals: &[Literal]) -> Option<Result<Database, Error>> {
    if let Err(missing) = version() {
        eprintln!("skipped: {missing}");
        return None;
    }
    Some(Database::compile(literals))
}

#[test]
fn ends_are_told_in_order_and_once() {
    let any_case = Literal { ignore_case: true, ..literal("CD") };
    let Some(database) = database(&[literal("ab"), literal("b\0"), literal("b"), any_case]) else { return };
    let mut scanner = database.unwrap().scanner().unwrap();
    let mut found = vec![];
    let block = [b"-ab\0cdCD-b".as_slice(), &[b'-'; SCAN_BYTES_MIN]].concat();
    assert_eq!(scanner.ends(&block, 16, &mut found), Ok(true));
    assert_eq!(found, [3, 4, 6, 8, 10]);
    assert_eq!(scanner.ends(&[b'x'; SCAN_BYTES_MIN], 16, &mut found), Ok(true));
    assert!(found.is_empty());
    assert_eq!(scanner.ends(&[b'b'; SCAN_BYTES_MIN], 16, &mut found), Ok(false));
}

/// Set sizes that make the library use each of its algorithms, over few and over many distinct bytes.
#[test]
fn all_that_is_there_is_found() {
    let mut random = proof::Random(2);
    for round in 0..600 {
        let alphabet: &[u8] =
            [b"ab".as_slice(), b"aAbB-\0", b"etaoin shrdluETAOIN=/.\xff\xc3\r\n"][round % 3];
        let size = [1, 2, 9, 60, 200][round % 5];
        let literals: Vec<Literal> =
            (0..size).map(|n| random.literal(alphabet, 2 + (n * 7 + round) % 11)).collect();
        let Some(database) = database(&literals) else { return };
        let mut scanner = database.unwrap().scanner().unwrap();
        for length in [SCAN_BYTES_MIN, 129, 191, 192, 500, 1_448] {
            let mut block = random.bytes(alphabet, length);
            if round % 2 == 0 {
                // Few of them.
                block.iter_mut().enumerate().filter(|(n, _)| n % 97 > 16).for_each(|(_, byte)| *byte = b'~');
            }
            let mut found = vec![];
            assert_eq!(scanner.ends(&block, length, &mut found), Ok(true));
            let ends_here = |literal: &Literal, end: usize| match literal.ignore_case {
                true => end
                    .checked_sub(literal.bytes.len())
                    .is_some_and(|at| block[at..end].eq_ignore_ascii_case(&literal.bytes)),
                false => block[..end].ends_with(&literal.bytes),
            };
            let expected = (1..=length).filter(|&end| literals.iter().any(|literal| ends_here(literal, end)));
            let expected: Vec<u32> = expected.map(|end| end as u32).collect();
            assert_eq!(found, expected, "{literals:?} in {:?}", block.escape_ascii().to_string());
        }
    }
}

#[test]
fn scanners_of_many_threads_share_a_database() {
    let Some(database) = database(&[literal("needle")]) else { return };
    let database = database.unwrap();
    std::thread::scope(|scope| {
        for n in 0..4_usize {
            let mut scanner = database.scanner().unwrap();
            scope.spawn(move || {
                let (mut bytes, mut found) = (vec![b'-'; 1_000], vec![]);
                bytes[n * 100..][..6].copy_from_slice(b"needle");
                for _ in 0..100 {
                    assert_eq!(scanner.ends(&bytes, 16, &mut found), Ok(true));
                    assert_eq!(found, [n as u32 * 100 + 6]);
                }
            });
        }
    });
}

#[test]
fn what_is_refused_says_why() {
    for wrong in [vec![literal("a"); LITERALS_MAX + 1], vec![], vec![literal("a"), literal("")]] {
        let Some(refused) = database(&wrong) else { return };
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Refused(_)), "{refused}");
    }
    let Some(database) = database(&[literal("ab")]) else { return };
    let few = database.unwrap().scanner().unwrap().ends(&[b'-'; SCAN_BYTES_MIN - 1], 16, &mut vec![]);
    assert!(matches!(few, Err(Error::Refused(_))), "{few:?}");
}

#[test]
fn a_missing_library_says_what_to_install() {
    let missing = library::load("libhs.so.none").unwrap_err().to_string();
    assert!(missing.contains("libhs.so.none") && missing.contains("install libhyperscan5"), "{missing}");
}
