//! Makes a run with a difference as short as it can be.

use std::time::Duration;

use tokio::time::Instant;

use super::generate::{Move, What};
use super::{Differing, Fuzz};
use crate::catalogue::lex::Cursor;
use crate::catalogue::request::Draft;
use crate::error::RunError;

/// How often shorter runs are tried.
const ATTEMPTS: usize = 500;

/// How long that may take: a run in which a server does not answer takes as long as it is waited for.
const TIME: Duration = Duration::from_secs(120);

/// Leaves out moves, and requests of moves, as long as a difference remains: first many at once, then each by itself.
pub(super) async fn shortest(fuzz: &Fuzz, found: Differing) -> Result<Differing, RunError> {
    let mut shortest = found;
    let mut attempts = 0;
    let end = Instant::now() + TIME;
    let has_time = || Instant::now() < end;
    let mut size = shortest.moves.len().div_ceil(2);
    loop {
        let (mut from, mut has_shrunk) = (0, false);
        while from < shortest.moves.len() && attempts < ATTEMPTS && has_time() {
            attempts += 1;
            let to = (from + size).min(shortest.moves.len());
            let fewer = [&shortest.moves[..from], &shortest.moves[to..]].concat();
            match fuzz.play(&fewer).await? {
                Some(found) => (shortest, has_shrunk) = (found, true),
                None => from = to,
            }
        }
        match size {
            _ if !has_time() => break,
            1 if !has_shrunk || attempts >= ATTEMPTS => break,
            1 => {}
            _ => size = size.div_ceil(2),
        }
    }
    for at in 0..shortest.moves.len() {
        let mut piece = 0;
        while let Some(fewer) = without(&shortest.moves, at, piece).filter(|_| has_time()) {
            match fuzz.play(&fewer).await? {
                Some(found) => shortest = found,
                None => piece += 1,
            }
        }
    }
    Ok(shortest)
}

/// The moves without one piece of one of them: a request, or if it is the only one, a part of a multi. `None` if there are
/// fewer of them, or only one.
fn without(moves: &[Move], at: usize, piece: usize) -> Option<Vec<Move>> {
    let mut moves = moves.to_vec();
    let What::Ask { requests, .. } = &mut moves.get_mut(at)?.what else { return None };
    if let [(text, draft)] = &mut requests[..] {
        (*text, *draft) = without_part(text, piece)?;
    } else if piece < requests.len() {
        requests.remove(piece);
    } else {
        return None;
    }
    Some(moves)
}

fn without_part(multi: &str, part: usize) -> Option<(String, Draft)> {
    let (name, parts) = multi.strip_suffix(" }")?.split_once(" { ")?;
    let mut parts: Vec<_> = parts.split("; ").collect();
    if part >= parts.len() || parts.len() < 2 {
        return None;
    }
    parts.remove(part);
    let text = format!("{name} {{ {} }}", parts.join("; "));
    let draft = Draft::parse(&mut Cursor::new(&text).ok()?).ok()?;
    Some((text, draft))
}
