//! Failures as the API reports them: with the place of a mistake in the filter, and what to do.

use weir_questions::by_name::Mistake;
use weir_questions::messages::Failure;
use weir_web::Refusal;

/// The refusal of a request with mistakes.
pub fn of_failure(failure: Failure) -> Refusal {
    match &failure {
        Failure::Mistakes(list) | Failure::MistakesOf(_, list) => {
            let Some(first) = list.list.iter().find(|one| one.is_error()) else {
                return Refusal::bad(failure.to_string());
            };
            let mut refusal = Refusal::bad(first.message.clone());
            if let Some((span, _)) = first.spans.first() {
                refusal = refusal.at(span.start as usize, span.end as usize);
            }
            match &first.help {
                Some(help) => refusal.with_hint(help.clone()),
                None => refusal,
            }
        }
        Failure::Several(_) => match failure {
            Failure::Several(all) => all.into_iter().next().map_or_else(Refusal::not_found, of_failure),
            other => Refusal::bad(other.to_string()),
        },
        other => Refusal::bad(other.to_string()),
    }
}

/// As [`of_failure`], with places in bytes.
pub fn of_mistake(mistake: Mistake) -> Refusal {
    let Some(mark) = mistake.marks.into_iter().next() else { return Refusal::bad(mistake.text) };
    let mut refusal = Refusal::bad(mark.message);
    if let Some((start, end)) = mark.span {
        let byte = |at: usize| mark.text.char_indices().nth(at).map_or(mark.text.len(), |(byte, _)| byte);
        refusal = refusal.at(byte(start), byte(end));
    }
    match mark.help {
        Some(help) => refusal.with_hint(help),
        None => refusal,
    }
}
