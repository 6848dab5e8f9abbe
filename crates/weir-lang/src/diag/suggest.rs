//! "Did you mean …?": the candidate nearest to a mistyped name.

/// The candidate that most resembles `name`, if any is similar enough. At most a third of the characters (and
/// at least one) may be added, dropped, changed or swapped with a neighbour. Case is ignored. Common words
/// before a dot are ignored as well: `tls.nosuch` does not resemble `tls.auth`.
///
/// Cost: per candidate of similar length, the product of both lengths.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than any real name: no candidate is similar, and the comparison would only cost time.
    const NAME_BYTES_MAX: usize = 64;
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut wanted = Vec::new();
    letters(name, &mut wanted);
    // Reused for all candidates: a name is compared with hundreds, and texts may have many unknown names.
    let (mut other, mut rows) = (Vec::new(), Rows::default());
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if candidate == name || candidate.len() > NAME_BYTES_MAX {
            continue;
        }
        letters(candidate, &mut other);
        let same = wanted.iter().zip(&other).take_while(|(a, b)| a == b).count();
        let words = wanted[..same].iter().rposition(|letter| *letter == '.').map_or(0, |dot| dot + 1);
        let (wanted, other) = (&wanted[words..], &other[words..]);
        let distance_max = (wanted.len().max(other.len()) / 3).max(1);
        if other.len().abs_diff(wanted.len()) > distance_max {
            continue;
        }
        let distance = edit_distance(wanted, other, distance_max, &mut rows);
        // A distance equal to the length leaves no character in common.
        let near = distance <= distance_max && distance < wanted.len();
        if near && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The characters to compare.
fn letters(name: &str, into: &mut Vec<char>) {
    into.clear();
    into.extend(name.chars().map(|c| c.to_ascii_lowercase()));
}

/// The rows of the table of [`edit_distance`]: the current one and the two before.
#[derive(Default)]
struct Rows {
    row: Vec<usize>,
    last: Vec<usize>,
    before_last: Vec<usize>,
}

/// The number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`. If the
/// number exceeds `max`, any number above `max`.
fn edit_distance(a: &[char], b: &[char], max: usize, rows: &mut Rows) -> usize {
    let Rows { row, last, before_last } = rows;
    last.clear();
    last.extend(0..=b.len());
    let mut least_of_last = 0;
    for i in 1..=a.len() {
        row.clear();
        row.push(i);
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut cost = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cost = cost.min(before_last[j - 2] + 1);
            }
            row.push(cost);
        }
        // Later rows are made of these two, and their numbers do not fall.
        let least = row.iter().copied().min().unwrap_or(i);
        if least.min(least_of_last) > max {
            return max + 1;
        }
        least_of_last = least;
        std::mem::swap(before_last, last);
        std::mem::swap(last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_far_ones_are_not() {
        let names = ["src_port", "dst_port", "flags.syn", "seq"];
        assert_eq!(suggest("scr_port", names), Some("src_port"));
        assert_eq!(suggest("dstport", names), Some("dst_port"));
        assert_eq!(suggest("flags.sin", names), Some("flags.syn"));
        assert_eq!(suggest("SEQ", names), Some("seq"));
        assert_eq!(suggest("window", names), None);
        assert_eq!(suggest("flags.nosuch", names), None);
        assert_eq!(suggest("postgresql.nosuch", ["postgresql.auth", "postgresql.user"]), None);
        assert_eq!(suggest("postgresql.autg", ["postgresql.auth"]), Some("postgresql.auth"));
        assert_eq!(suggest("tcp.dport", ["tcp.dstport"]), Some("tcp.dstport"));
        assert_eq!(suggest("", names), None);
        assert_eq!(suggest("a", ["b"]), None);
    }

    #[test]
    fn swapped_neighbours_are_one_mistake() {
        let of = |a: &str, b: &str, max: usize| {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            letters(a, &mut first);
            letters(b, &mut second);
            edit_distance(&first, &second, max, &mut Rows::default())
        };
        assert_eq!(of("ab", "ba", 9), 1);
        assert_eq!(of("syn", "sny", 9), 1);
        assert_eq!(of("kitten", "sitting", 9), 3);
        assert_eq!(of("kitten", "sitting", 3), 3);
        assert!(of("kitten", "sitting", 2) > 2);
        assert_eq!(of("", "abc", 9), 3);
    }
}
