//! Adds, lists and removes questions of a run while the run goes on: for the control socket, and for reloads.

use crate::messages::failure::Failure;
use crate::output::handover::Guard;
use crate::output::place;
use crate::run::question_set::{Active, QuestionSet, Stated};
use crate::spec::QuestionSpec;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;
use weir::Control;

/// Time for an output to be opened. A pipe waits for its reader.
const OPEN_MAX: Duration = Duration::from_secs(1);

/// Time for the output of a removed question to be completed.
const COMPLETE_MAX: Duration = Duration::from_secs(5);

/// Time for an output to open other instances, whose names may have to be looked up.
const CHANGE_MAX: Duration = Duration::from_secs(20);

/// Changes the questions of a run.
pub struct QuestionChanges {
    control: Control,
    set: Arc<QuestionSet>,
}

impl QuestionChanges {
    /// Changes the questions of `set`, whose run has this control.
    pub fn new(control: Control, set: Arc<QuestionSet>) -> Self {
        Self { control, set }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<String, Active>> {
        self.set.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The questions that have not ended by themselves, for instance because their output failed.
    fn live_names(&self) -> Result<MutexGuard<'_, HashMap<String, Active>>, String> {
        let mut names = self.names();
        let live = self.control.list()?;
        names.retain(|_, active| live.iter().any(|listed| listed.subscription == active.subscription));
        Ok(names)
    }

    /// Adds a question, and opens its output. Returns a remark if the output is not open yet.
    ///
    /// # Errors
    /// The mistakes of the question, or why its output cannot be opened. The question is not added then.
    pub fn add(&self, question: QuestionSpec) -> Result<Option<String>, String> {
        let (stated, name) = (Stated::new(question.clone()), question.name);
        // The lock covers both check and subscription, so that concurrent requests cannot take the same name.
        let mut names = self.live_names()?;
        let prepared = self.set.admit(&stated, names.values().map(|other| &other.stated));
        let prepared = prepared.map_err(|wrong| Failure::Several(wrong).to_string())?;
        self.set.totals.forget_failed(&name);
        let output = prepared.output;
        let subscription = self.control.subscribe_questions(prepared.questions, prepared.answers)?;
        names.insert(name.clone(), Active { subscription, stated, output: output.clone() });
        drop(names);
        match output.open(OPEN_MAX) {
            Ok(true) => Ok(None),
            Ok(false) => Ok(Some("its output is not open yet: a named pipe needs a reader".to_string())),
            Err(failure) => {
                // The question may have ended by itself.
                let _ = self.control.unsubscribe(subscription);
                self.names().retain(|_, active| active.subscription != subscription);
                Err(failure.of_question(&name).to_string())
            }
        }
    }

    /// The questions that have not ended, by name.
    ///
    /// # Errors
    /// The run has ended.
    pub fn list(&self) -> Result<Vec<QuestionSpec>, String> {
        let names = self.live_names()?;
        let mut questions: Vec<QuestionSpec> =
            names.values().map(|active| active.stated.spec.clone()).collect();
        questions.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(questions)
    }

    /// Removes a question, and completes its output.
    ///
    /// # Errors
    /// There is no such question, or its output is blocked.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        let mut names = self.live_names()?;
        let known = names.get(name).map(|active| active.subscription);
        let subscription = known.ok_or_else(|| format!("there is no question called `{name}`"))?;
        self.control.unsubscribe(subscription)?;
        let removed = names.remove(name);
        drop(names);
        let waiting = removed.and_then(|active| active.output.wait(COMPLETE_MAX).err());
        waiting.map_or(Ok(()), |load| {
            let rows = load.rows;
            Err(format!("`{name}` is removed, but its output is blocked: {rows} rows are not written"))
        })
    }

    /// Changes the instances to which a question sends its packets. No packet is lost or sent twice.
    ///
    /// # Errors
    /// There is no such question, its packets do not go to instances, or the new ones cannot be opened: the
    /// previous ones stay.
    pub fn change(&self, name: &str, to: PathBuf) -> Result<(), String> {
        let mut names = self.live_names()?;
        let active = names.get_mut(name).ok_or_else(|| format!("there is no question called `{name}`"))?;
        let now = QuestionSpec { output: Some(to.clone()), ..active.stated.spec.clone() };
        place::check(&to).map_err(|wrong| wrong.to_string())?;
        if !now.is_rescaled(&active.stated.spec) {
            return Err(format!(
                "only instances can be changed (udp://HOST:PORT,HOST:PORT): remove `{name}`, and add it again"
            ));
        }
        let changed = active.output.change_instances(to, CHANGE_MAX);
        changed.map_err(|wrong| wrong.of_question(name).to_string())?;
        active.stated = Stated::new(now);
        Ok(())
    }

    /// Changes the questions of a file from `before` to `now`: those that stay the same go on with all of
    /// their state. Returns those that the run has afterwards. `origin`: the name of the file, for messages.
    ///
    /// # Errors
    /// All mistakes of all questions: nothing changes then. Other failures are said.
    pub fn replace(
        &self,
        before: &[QuestionSpec],
        now: Vec<QuestionSpec>,
        origin: &str,
    ) -> Result<Vec<QuestionSpec>, Failure> {
        let active = self.list().map_err(Failure::new)?;
        // A question that failed, for instance because of a full disk, begins again. One that reached its
        // limit does not.
        let is_kept = |spec: &QuestionSpec| before.contains(spec) && !self.has_failed(&spec.name);
        let (kept, new): (Vec<QuestionSpec>, Vec<QuestionSpec>) = now.into_iter().partition(is_kept);
        // A question that only gets other instances continues; `weir ctl` may have changed them since the
        // last reload.
        let is_of_file = |one: &QuestionSpec| before.iter().any(|spec| spec == one || spec.is_rescaled(one));
        let rescales =
            |spec: &QuestionSpec| active.iter().any(|one| is_of_file(one) && spec.is_rescaled(one));
        let (rescaled, new): (Vec<QuestionSpec>, Vec<QuestionSpec>) =
            new.into_iter().partition(|spec| rescales(spec) && !self.has_failed(&spec.name));
        let continues = |one: &QuestionSpec| rescaled.iter().any(|spec| spec.name == one.name);
        let stays = |one: &QuestionSpec| kept.iter().any(|spec| spec.name == one.name) || continues(one);
        let gone = active.iter().filter(|one| is_of_file(one) && !stays(one));
        let previous: Vec<&QuestionSpec> = gone.collect();
        let gone: Vec<&str> = previous.iter().map(|one| one.name.as_str()).collect();
        let stay = active.iter().filter(|one| !continues(one)).map(|one| one.name.as_str());
        let stay: Vec<&str> = stay.filter(|name| !gone.contains(name)).collect();
        let _handover = self.hand_over(&previous, &new);
        self.check(&[&new[..], &rescaled].concat(), &stay)?;
        // A changed question may write to the same file, so the previous one ends first.
        for why in gone.iter().filter_map(|name| self.remove(name).err()) {
            say!("weir: {origin}: {why}");
        }
        let (gone, mut now, mut begun) = (gone.len(), kept, 0);
        let continuing = now.len() + rescaled.len();
        for spec in rescaled {
            match self.change(&spec.name, spec.output.clone().unwrap_or_default()) {
                Ok(()) => now.push(spec),
                Err(why) => {
                    say!("weir: {origin}: {why}");
                    now.extend(active.iter().find(|one| one.name == spec.name).cloned());
                }
            }
        }
        for spec in new {
            match self.add(spec.clone()) {
                Ok(remark) => {
                    remark.iter().for_each(|remark| say!("weir: {}: `{}`: {remark}", origin, spec.name));
                    begun += 1;
                    now.push(spec);
                }
                // Some mistakes are found only when all questions are compiled together. The run then
                // continues with the previous version of the question. The next reload tries the new version
                // again.
                Err(why) => {
                    say!("weir: {origin}: {why}");
                    let previous = previous.iter().find(|one| one.name == spec.name);
                    if let Some(previous) = previous
                        && self.add((*previous).clone()).is_ok()
                    {
                        now.push((*previous).clone());
                    }
                }
            }
        }
        note!("weir: {origin}: reloaded: {begun} questions begin, {gone} end, {continuing} continue");
        Ok(now)
    }

    /// Checks questions that would run beside those of these names.
    ///
    /// # Errors
    /// All mistakes of all questions.
    fn check(&self, questions: &[QuestionSpec], beside: &[&str]) -> Result<(), Failure> {
        let names = self.names();
        let stated: Vec<Stated> = questions.iter().cloned().map(Stated::new).collect();
        let mut wrong = vec![];
        for (index, own) in stated.iter().enumerate() {
            let active = names.values().map(|active| &active.stated);
            let active = active.filter(|other| beside.contains(&other.spec.name.as_str()));
            wrong.extend(self.set.admit(own, active.chain(&stated[..index])).err().into_iter().flatten());
        }
        Failure::all(wrong)
    }

    /// From now on, outputs of the questions `gone` hand over their clients to outputs of questions of `new`.
    fn hand_over(&self, gone: &[&QuestionSpec], new: &[QuestionSpec]) -> Guard<'_> {
        self.set.outlets.clients().handover.begin(gone, new, &self.set.totals)
    }

    /// Whether a question of this name has failed, and has not begun again.
    fn has_failed(&self, name: &str) -> bool {
        self.set.totals.has_failed(name)
    }

    /// Opens the outputs of all questions again whose files were renamed or deleted since.
    pub fn reopen(&self) {
        self.names().values().for_each(|active| active.output.reopen());
    }
}
