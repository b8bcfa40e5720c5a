//! [`Fuzz`]: sends the same random requests to two servers, and compares all that comes back.
//!
//! A run is a list of [`Move`]s, drawn from a seed. After each of them, every connection is pinged: the reply to a ping comes after
//! whatever the server had to send on that connection before, so events are compared without waiting for a time. What must differ is
//! made equal first: zxids are counted from the begin of the run, sessions are numbered, and of times only whether there is one counts.

mod damage;
mod generate;
mod print;
mod quota;
mod shrink;
mod side;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::catalogue::case::Setting;
use crate::catalogue::run::Runner;
use crate::error::RunError;
use generate::{Generator, Move};
use side::{Observed, Side};

/// Compares two servers by random requests.
#[derive(Debug)]
pub struct Fuzz {
    reference: Runner,
    candidate: Runner,
    settings: Vec<Setting>,
    /// How often moves have been played. Each time has a subtree of its own: of one before it, something can be left that
    /// nobody may delete.
    plays: AtomicU64,
}

/// Two servers that answer the same requests differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The shortest case found that the reference passes and the candidate does not, as text of a catalogue. If they do not
    /// differ again, its last lines.
    pub case: String,
    /// What the reference sent in its last step.
    pub reference: Vec<String>,
    /// What the candidate sent.
    pub candidate: Vec<String>,
    /// Whether they have differed again when the same requests were sent once more. If not, somebody else may have used a server,
    /// a timer has run out, or a server does not always do the same.
    pub repeats: bool,
}

/// A run up to its first difference.
struct Differing {
    moves: Vec<Move>,
    /// What the reference sent after each move.
    reference: Vec<Vec<Observed>>,
    /// What the candidate sent after the last move.
    candidate: Vec<Observed>,
}

impl Fuzz {
    /// Connects to two servers, which nobody else may use meanwhile: their writes would count as differences. `run` tells
    /// the znodes from those of other runs. An answer that has not come after `limit` is missing.
    ///
    /// # Errors
    /// If a server cannot be reached, does not answer as a ZooKeeper does, or refuses a znode below `/`.
    pub async fn new(reference: &str, candidate: &str, run: u64, limit: Duration) -> Result<Self, RunError> {
        let (reference, candidate) =
            tokio::try_join!(Runner::new(reference, run, limit), Runner::new(candidate, run, limit))?;
        Ok(Self { reference, candidate, settings: Vec::new(), plays: AtomicU64::new(0) })
    }

    /// The settings that both servers have, if they are not [found out](Self::find_settings). [`Setting::EnforceQuota`] must be among them
    /// if they do so; the other ones decide what is drawn, or only which servers the printed case is for.
    pub fn with(mut self, settings: &[Setting]) -> Self {
        self.settings.extend(settings);
        self
    }

    /// Finds out the settings of the reference and of the candidate, and takes those of the reference as if they had been given to
    /// [`with`](Self::with).
    ///
    /// # Errors
    /// If a server cannot be reached, or refuses a znode.
    pub async fn find_settings(&mut self) -> Result<[Vec<Setting>; 2], RunError> {
        // The same requests for both, so that they do not differ by that.
        let (reference, candidate) = tokio::try_join!(
            self.reference.find_settings(&Setting::ALL),
            self.candidate.find_settings(&Setting::ALL)
        )?;
        let new = reference.iter().filter(|setting| !self.settings.contains(setting));
        self.settings.extend(new.copied().collect::<Vec<_>>());
        Ok([reference, candidate])
    }

    /// Takes credentials of the scheme `digest` for the super user of both servers, such as `super:secret`. Then some sessions are super.
    ///
    /// # Errors
    /// If they are not those of a super user, or the server cannot be reached.
    pub async fn set_super_credentials(&mut self, credentials: &str) -> Result<(), RunError> {
        self.settings.push(Setting::Super);
        self.reference.set_super_credentials(credentials).await?;
        self.candidate.set_super_credentials(credentials).await
    }

    /// Plays `moves` moves drawn from `seed`, which is about as many requests, and shortens the first difference, if there is one. The same
    /// seed draws the same moves.
    ///
    /// # Errors
    /// If a server cannot be reached any longer, or neither answers: then nothing is compared.
    pub async fn run(&self, seed: u64, moves: usize) -> Result<Option<Difference>, RunError> {
        let mut generator = Generator::new(seed, &self.settings);
        let moves: Vec<_> = (0..moves).map(|_| generator.next()).collect();
        let Some(found) = self.play(&moves).await? else { return Ok(None) };
        // What does not come again cannot be made shorter.
        Ok(Some(match self.play(&found.moves).await? {
            Some(again) => {
                print::difference(seed, &self.settings, &shrink::shortest(self, again).await?, true)
            }
            None => print::difference(seed, &self.settings, &found, false),
        }))
    }

    /// Removes what the runs have created. Returns what remains: runs draw ACLs that let nobody delete.
    pub async fn finish(&self) -> Vec<RunError> {
        let (reference, candidate) = tokio::join!(self.reference.finish(), self.candidate.finish());
        [reference, candidate].into_iter().filter_map(Result::err).collect()
    }

    /// Plays moves up to the first difference. None if there is none.
    async fn play(&self, moves: &[Move]) -> Result<Option<Differing>, RunError> {
        // Always as long, as what is damaged in a request can depend on it.
        let name = format!("{:08x}", self.plays.fetch_add(1, Ordering::Relaxed));
        let (mut reference, mut candidate) =
            tokio::try_join!(Side::new(&self.reference, &name), Side::new(&self.candidate, &name))?;
        let mut sent = Vec::new();
        let mut differing = None;
        for (at, step) in moves.iter().enumerate() {
            let (right, other) = tokio::join!(reference.play(step), candidate.play(step));
            let differ = right != other;
            for (runner, side) in [(&self.reference, &reference), (&self.candidate, &candidate)] {
                if let Some(reason) = &side.unreachable {
                    return Err(runner.fail(reason));
                }
            }
            // What neither has answered is equal and shows nothing. That only one does not is a difference.
            if let Some(reason) = reference.late.take().filter(|_| !differ) {
                return Err(self.reference.fail(&reason));
            }
            sent.push(right);
            if differ {
                let (moves, reference) = (moves[..=at].to_vec(), std::mem::take(&mut sent));
                differing = Some(Differing { moves, reference, candidate: other });
                break;
            }
        }
        tokio::join!(reference.finish(), candidate.finish());
        Ok(differing)
    }
}
