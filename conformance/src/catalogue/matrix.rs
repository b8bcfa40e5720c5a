//! [`Matrix`]: which answers of which operations, and which orders of checks, the cases of a catalogue show.

use std::collections::{BTreeMap, VecDeque};

use crate::catalogue::Catalogue;
use crate::catalogue::case::{Action, Case};
use crate::catalogue::pattern::{Pattern, Patterns};
use crate::catalogue::request::Draft;

/// What there is to show.
const TABLE: &str = include_str!("../../cases/answers.table");

/// What a catalogue shows, and what it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// Each operation with its answers, and how often cases show them. 0 is a hole.
    pub answers: Vec<(String, Vec<(String, usize)>)>,
    /// Each operation with two checks, the first of which comes before the other, and the case that shows it. None is a hole.
    pub orders: Vec<(String, String, Option<String>)>,
    /// Answers that cases show, and that the table does not have for the operation.
    pub unknown: Vec<(String, String)>,
}

impl Matrix {
    /// Counts what the cases of a catalogue show. Those that are about deviations of Zoolet do not count.
    pub fn of(catalogue: &Catalogue) -> Self {
        let cases: Vec<_> = catalogue.cases().iter().filter(|case| case.deviates().is_none()).collect();
        let mut shown = BTreeMap::new();
        for case in &cases {
            count(case, &mut shown);
        }
        let mut matrix = Self { answers: Vec::new(), orders: Vec::new(), unknown: Vec::new() };
        for line in TABLE.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("answers") => {
                    let mut operation = words.next().unwrap_or_default().to_owned();
                    if operation == "part" {
                        operation = format!("part {}", words.next().unwrap_or_default());
                    }
                    let answers = words.map(|answer| {
                        let key = (operation.clone(), answer.to_owned());
                        (answer.to_owned(), shown.remove(&key).unwrap_or(0))
                    });
                    let answers = answers.collect();
                    matrix.answers.push((operation, answers));
                }
                Some("order") => {
                    let operation = words.next().unwrap_or_default();
                    matrix.orders.extend(words.map(|word| {
                        let (order, name) = match word.split_once('=') {
                            Some((order, name)) => (order, name.to_owned()),
                            None => (word, format!("order/{operation}-{}", word.replace('>', "-before-"))),
                        };
                        let is_there = cases.iter().any(|case| case.name() == name);
                        (operation.to_owned(), order.to_owned(), is_there.then_some(name))
                    }));
                }
                _ => {}
            }
        }
        matrix.unknown = shown.into_keys().collect();
        matrix
    }
}

/// Adds what a case shows: operations and their results.
fn count(case: &Case, shown: &mut BTreeMap<(String, String), usize>) {
    let mut sent: BTreeMap<char, VecDeque<&Draft>> = BTreeMap::new();
    for step in &case.steps {
        let answered = match &step.action {
            Action::Send(draft, Some(expected)) => Some((draft, expected)),
            Action::Send(draft, None) => {
                sent.entry(step.session).or_default().push_back(draft);
                None
            }
            Action::Reply(expected) => {
                sent.get_mut(&step.session).and_then(VecDeque::pop_front).map(|draft| (draft, expected))
            }
            _ => None,
        };
        let Some((draft, expected)) = answered else { continue };
        add(draft.operation(), expected, shown);
        for (part, result) in draft.parts().iter().zip(results(expected)) {
            add(&format!("part {}", part.operation()), result, shown);
        }
    }
}

fn add(operation: &str, expected: &Patterns, shown: &mut BTreeMap<(String, String), usize>) {
    if let Some((_, Pattern::Word(result))) = expected.0.iter().find(|(name, _)| name == "result") {
        // One that was undone has not failed itself.
        if result != "undone" {
            *shown.entry((operation.to_owned(), result.clone())).or_default() += 1;
        }
    }
}

/// The results of the parts of a multi.
fn results(expected: &Patterns) -> &[Patterns] {
    let results = expected.0.iter().find_map(|(_, pattern)| match pattern {
        Pattern::Results(results) => Some(&results[..]),
        _ => None,
    });
    results.unwrap_or_default()
}
