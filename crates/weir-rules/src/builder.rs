//! A rule in the making: what options add to it.

use crate::buffers::BufferId;
use crate::content::Content;
use crate::inspect::is_relative;
use crate::model::{Inspection, Rule, Test, Transform};

use crate::options::{FORM, OptionText};
use crate::text::RuleText;
use weir_lang::diag::Diagnostic;

/// A rule in the making.
pub(crate) struct Builder<'b, 't> {
    pub rule: Rule,
    text: &'b RuleText<'t>,
    /// The sticky buffer in effect.
    buffer: BufferId,
    /// The transforms of the buffer in effect.
    transforms: Vec<Transform>,
    /// The sticky buffer in effect has no test yet, and is another one than that of the same name before.
    is_new: bool,
    /// The test that the next modifier is about: its inspection, and its place there.
    pub last: Option<(usize, usize)>,
}

impl<'b, 't> Builder<'b, 't> {
    pub fn new(text: &'b RuleText<'t>, rule: Rule) -> Self {
        Self { rule, text, buffer: BufferId::PAYLOAD, transforms: vec![], is_new: false, last: None }
    }

    /// The buffer of what follows.
    pub fn select(&mut self, buffer: BufferId) {
        (self.buffer, self.transforms, self.last) = (buffer, vec![], None);
        self.is_new = buffer.is_multiple();
    }

    /// The buffer in effect.
    pub fn selected(&self) -> BufferId {
        self.buffer
    }

    /// The buffer in effect is changed before it is inspected. Returns `false` for the payload, which cannot
    /// be.
    pub fn transform(&mut self, transform: Transform) -> bool {
        self.transforms.push(transform);
        self.buffer != BufferId::PAYLOAD
    }

    /// Adds a test on the buffer in effect. Behind a content with an older word, a relative test is about the
    /// content's buffer.
    pub fn test(&mut self, test: Test) {
        let is_content = matches!(test, Test::Content(_) | Test::Pcre(_));
        if self.buffer == BufferId::PAYLOAD
            && !is_content
            && is_relative(&test)
            && let Some((at, _)) = self.last
            && let Some(last) = self.rule.inspections.get_mut(at)
        {
            last.tests.push(test);
            self.last = Some((at, last.tests.len() - 1));
            return;
        }
        let (buffer, transforms) = (self.buffer, std::mem::take(&mut self.transforms));
        self.add(buffer, &transforms, test);
        self.transforms = transforms;
    }

    fn add(&mut self, buffer: BufferId, transforms: &[Transform], test: Test) {
        let all = &mut self.rule.inspections;
        let is_new = std::mem::take(&mut self.is_new);
        let known = all.iter().rposition(|one| one.buffer == buffer && one.transforms == transforms);
        let known = known.filter(|_| !is_new);
        let at = known.unwrap_or_else(|| {
            all.push(Inspection { buffer, transforms: transforms.to_vec(), tests: vec![] });
            all.len() - 1
        });
        all[at].tests.push(test);
        self.last = Some((at, all[at].tests.len() - 1));
    }

    /// Moves the last test to another buffer: an older word behind it says so.
    pub fn move_last(&mut self, buffer: BufferId) -> bool {
        let Some((inspection, test)) = self.last.take() else { return false };
        let from = &mut self.rule.inspections[inspection];
        if from.buffer != BufferId::PAYLOAD || test + 1 != from.tests.len() {
            return false;
        }
        let Some(moved) = from.tests.pop() else { return false };
        if from.tests.is_empty() {
            self.rule.inspections.remove(inspection);
        }
        self.add(buffer, &[], moved);
        true
    }

    /// The test that a modifier is about.
    pub fn last_test(&mut self) -> Option<&mut Test> {
        let (inspection, test) = self.last?;
        self.rule.inspections.get_mut(inspection)?.tests.get_mut(test)
    }

    /// The content that a modifier is about: other tests may have come since.
    pub fn last_content(&mut self) -> Option<&mut Content> {
        let (inspection, test) = self.last?;
        let tests = self.rule.inspections.get_mut(inspection)?.tests.get_mut(..=test)?;
        tests.iter_mut().rev().find_map(|test| match test {
            Test::Content(content) => Some(content),
            _ => None,
        })
    }

    /// The number of a variable that a rule has set before.
    pub fn variable(&self, name: &str) -> Option<u16> {
        self.rule.variables.iter().position(|known| known == name).map(|at| at as u16)
    }

    /// The number of a variable that is set now.
    pub fn new_variable(&mut self, name: &str) -> u16 {
        self.variable(name).unwrap_or_else(|| {
            self.rule.variables.push(name.to_string());
            self.rule.variables.len() as u16 - 1
        })
    }

    /// The rule, if its parts do not contradict each other.
    pub fn finish(self) -> Result<Rule, Diagnostic> {
        if self.rule.sid == 0 {
            return Err(Diagnostic::error(FORM, "the rule has no signature ID")
                .at(self.text.span(self.text.text.len().saturating_sub(1), self.text.text.len()))
                .help("add `sid:NUMBER;`"));
        }
        Ok(self.rule)
    }
}

/// A mistake in an option's value.
pub(crate) fn wrong_value(option: &OptionText<'_>, why: impl Into<String>, help: &str) -> Diagnostic {
    Diagnostic::error("W0205", format!("`{}`: {}", option.name, why.into())).at(option.value_span).help(help)
}
