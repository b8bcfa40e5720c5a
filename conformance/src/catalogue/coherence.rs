//! [`Coherence`]: what the lines of a case owe each other. A case that breaks it says nothing about a server.

use std::collections::{BTreeMap, HashSet};

use crate::catalogue::case::{Action, Step};
use crate::catalogue::pattern::{Pattern, Patterns};

/// What the lines of a case have named and sent so far.
#[derive(Debug, Default)]
pub(crate) struct Coherence {
    names: HashSet<String>,
    /// Requests of each connection that no line has awaited the reply of.
    unanswered: BTreeMap<char, usize>,
}

impl Coherence {
    /// Notes a line. Fails with what it needs and no line before it gives.
    pub(crate) fn step(&mut self, step: &Step) -> Result<(), String> {
        let unanswered = self.unanswered.entry(step.session).or_default();
        match &step.action {
            Action::Send(draft, expected) => {
                *unanswered += usize::from(expected.is_none());
                draft.names().into_iter().try_for_each(|name| self.must_know(name))?;
                expected.iter().try_for_each(|expected| self.read(expected))
            }
            Action::Reply(expected) => {
                *unanswered = unanswered
                    .checked_sub(1)
                    .ok_or_else(|| format!("{} has sent no request that has no reply yet", step.session))?;
                self.read(expected)
            }
            Action::Event(expected) => self.read(expected),
            Action::Open(draft, expected) => {
                *unanswered = 0;
                draft.names().into_iter().try_for_each(|name| self.must_know(name))?;
                self.read(expected)
            }
            Action::Drop | Action::Ended => {
                *unanswered = 0;
                Ok(())
            }
            // The bytes may begin a frame, or be none.
            Action::Quiet | Action::Bytes(_) => Ok(()),
        }
    }

    /// Ends the case. Fails if a reply is left that no line awaits.
    pub(crate) fn end(self) -> Result<(), String> {
        match self.unanswered.iter().find(|(_, unanswered)| **unanswered > 0) {
            Some((session, _)) => Err(format!("{session} sends a request whose reply no line awaits")),
            None => Ok(()),
        }
    }

    fn read(&mut self, patterns: &Patterns) -> Result<(), String> {
        patterns.0.iter().try_for_each(|(_, pattern)| match pattern {
            Pattern::Named(name) => {
                self.names.insert(name.clone());
                Ok(())
            }
            Pattern::Above(name) => self.must_know(name),
            Pattern::Results(results) => results.iter().try_for_each(|result| self.read(result)),
            Pattern::Word(_) | Pattern::Text(_) | Pattern::List(_) => Ok(()),
        })
    }

    fn must_know(&self, name: &str) -> Result<(), String> {
        // The runner gives that one.
        let is_known = name == crate::catalogue::pattern::SUPER_NAME || self.names.contains(name);
        if is_known { Ok(()) } else { Err(format!("no line before has named ${name}")) }
    }
}
