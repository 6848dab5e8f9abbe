//! Generates protocols of messages, which are carried by layers that put bytes in order, and the protocols
//! within them.

use super::Author;
use super::file::{Layer, is_there, when};
use super::names::{Kind, Names, Place, Role};
use crate::choices::Choices;

/// The link type of frames that begin with the carrier of messages. Other frames use 147 and 148.
const LINK: u16 = 149;

/// The protocols of messages, and their edges of the stack. Both are empty if no layer puts bytes in order.
pub(super) fn write(
    choices: &mut Choices<'_>,
    file: &Names,
    (layers, known, edges): (&[Layer], &[Names], &[(usize, usize)]),
    has_common: bool,
) -> (String, String) {
    let there = (0..layers.len()).filter(|&at| is_there(layers, edges, at));
    let mut carriers: Vec<(String, Names)> =
        there.map(|at| (layers[at].name.clone(), known[layers[at].protocol].clone())).collect();
    let (mut texts, mut stack) = (String::new(), String::new());
    let mut next = known.len();
    if choices.chance(50) {
        let mut author = Author::new(choices, file.clone());
        texts += &author.carrier(next);
        stack += &format!("    start {LINK}: p{next}\n");
        carriers.push((format!("p{next}"), author.names));
        next += 1;
    }
    for (from, carrier) in &carriers {
        let Some(role) = carrier.carries.filter(|_| choices.chance(80)) else { continue };
        for _ in 0..1 + choices.below(2) {
            let mut author = Author::new(choices, Names { role, ..file.clone() });
            author.names.below = below(carrier, has_common, role);
            texts += &author.protocol(next, None);
            let message = author.names.clone();
            stack += &format!("    {from} -> messages p{next}{}\n", when(author.choices, carrier, 50));
            // A message may contain another protocol only if the message has an end.
            let holds = role == Role::Whole || message.has_payload;
            if holds && author.choices.chance(30) {
                let mut inner = Author::new(author.choices, file.clone());
                inner.names.below = below(carrier, has_common, role);
                texts += &inner.protocol(next + 1, None);
                stack += &format!("    p{next} -> p{}{}\n", next + 1, when(inner.choices, &message, 60));
                next += 1;
            }
            next += 1;
        }
    }
    (texts, stack)
}

/// Field names of the layers that carry a message, and whether they are numbers. Messages in chunks keep only
/// numbers of the layers below.
fn below(carrier: &Names, has_common: bool, role: Role) -> Vec<(String, bool)> {
    let own = carrier.fields.iter().find(|(field, _)| field == "src").map(|(_, kind)| kind.is_number());
    let is_number = own.unwrap_or_else(|| carrier.below.iter().all(|(_, is_number)| *is_number));
    let names = [("src", is_number), ("dst", is_number), ("mark", true)];
    let fits = |is_number: bool| has_common && (is_number || role != Role::Whole);
    let known = names.into_iter().filter(|&(_, is_number)| fits(is_number));
    known.map(|(name, is_number)| (name.to_string(), is_number)).collect()
}

impl Author<'_, '_> {
    /// A protocol that puts the bytes of a few flows in order. Protocols made of random choices rarely do.
    fn carrier(&mut self, at: usize) -> String {
        let first = ["src", "dst", "mark"].map(|name| {
            self.names.fields.push((name.into(), Kind::Number(8)));
            format!("{name}: u8  ")
        });
        let mut clauses = vec![self.header(&(first.concat() + "num: u16  "))];
        clauses.push("payload = rest".into());
        self.names.has_payload = true;
        clauses.push("instance (src & 1) <-> (dst & 1)".into());
        self.names.two_sided = true;
        clauses.append(&mut self.vars());
        if self.choices.chance(40) {
            clauses.push(self.block("prepare"));
        }
        let is_whole = self.choices.chance(50);
        let wholes = if is_whole {
            format!(" wholes {} .. {}", self.condition(Place::Instance), self.condition(Place::Instance))
        } else {
            String::new()
        };
        let span = if is_whole { " spanning 1" } else { "" };
        let end = self.choices.pick(&["", " overwrite"]);
        clauses.push(format!("sequence at num of payload{span} from first{wholes}{end}"));
        if self.choices.chance(40) {
            clauses.push("acknowledge num when mark & 4 != 0".into());
        }
        self.names.carries = Some(if is_whole { Role::Whole } else { Role::Message });
        clauses.push(self.timeout());
        clauses.push("event put on ordered { assemble }".into());
        clauses.append(&mut self.events(&[], true, true));
        let body: String = clauses.iter().map(|clause| format!("    {clause}\n")).collect();
        format!("//! Carries messages\nprotocol p{at} {{\n{body}}}\n")
    }
}
