//! The faults that are placed: which one a thing meets, and how often each has fired.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use zoolet_proto::ErrorCode;

use crate::fault::action::Action;
use crate::fault::error::FaultError;
use crate::fault::matcher::{Count, Matcher, Subject, Target};

/// Every fault that is placed, the oldest first: that one is asked first.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    last_id: u64,
    seed: u64,
}

#[derive(Debug)]
struct Rule {
    id: FaultId,
    matcher: Matcher,
    action: Action,
    /// Things that fitted so far.
    fitted: u64,
    fired: u64,
    rng: StdRng,
}

/// The number of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(pub u64);

/// A generator each: what one draws depends neither on what others are asked nor on what a neighbouring seed draws for them.
fn generator(seed: u64, id: FaultId) -> StdRng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&id.0.to_le_bytes());
    StdRng::from_seed(key)
}

impl Rules {
    pub(crate) fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    pub(crate) fn place(&mut self, matcher: Matcher, action: Action) -> Result<FaultId, FaultError> {
        let matcher = matcher.checked()?;
        check(matcher.what(), action)?;
        let first =
            self.rules.iter().find(|rule| rule.matcher.is_unlimited() && rule.matcher.covers(&matcher));
        if let Some(first) = first {
            return Err(FaultError::Shadowed { by: format!("{}: {}", first.matcher, first.action) });
        }
        self.last_id += 1;
        let id = FaultId(self.last_id);
        let rng = generator(self.seed, id);
        self.rules.push(Rule { id, matcher, action, fitted: 0, fired: 0, rng });
        Ok(id)
    }

    pub(crate) fn remove(&mut self, id: FaultId) -> bool {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.id != id);
        self.rules.len() < before
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The fault that `subject` meets, if there is one; it has fired then.
    pub(crate) fn meet(&mut self, subject: &Subject<'_>) -> Option<(FaultId, Action)> {
        self.rules.iter_mut().find_map(|rule| rule.meet(subject).then_some((rule.id, rule.action)))
    }

    /// Every fault that stands, as text.
    pub(crate) fn list(&self) -> Vec<String> {
        let fired = |rule: &Rule| match rule.fired {
            0 => ", has not fired".to_owned(),
            1 => ", has fired once".to_owned(),
            more => format!(", has fired {more} times"),
        };
        let line = |rule: &Rule| format!("{}: {}: {}{}", rule.id.0, rule.matcher, rule.action, fired(rule));
        self.rules.iter().map(line).collect()
    }
}

impl Rule {
    fn meet(&mut self, subject: &Subject<'_>) -> bool {
        if !self.matcher.fits(subject) {
            return false;
        }
        self.fitted += 1;
        let counted = match self.matcher.counts() {
            Some(Count::Nth(n)) => self.fitted == n,
            Some(Count::First(n)) => self.fitted <= n,
            None => true,
        };
        let fires = counted && self.matcher.share().is_none_or(|share| self.rng.random_bool(share));
        self.fired += u64::from(fires);
        fires
    }
}

fn check(what: Target, action: Action) -> Result<(), FaultError> {
    let unfit = |hint| Err(FaultError::Unfit { action: action.to_string(), what: what.to_string(), hint });
    match (what, action) {
        (Target::Connection, Action::Refuse) => Ok(()),
        (Target::Connection, _) => {
            unfit("a new connection can only be refused; match `handshake()` or `request()`")
        }
        (_, Action::Refuse) => unfit("only a `connection()` can be refused; use `drop_request` or `fail`"),
        (Target::Handshake, Action::Fail(_)) => {
            unfit("a handshake has no error to be answered with; use `drop_request`")
        }
        (_, Action::Fail(ErrorCode::Unknown(0))) => unfit("0 is no error"),
        (_, Action::Drip { bytes: 0, .. }) => unfit("at least 1 byte must go at a time"),
        _ => Ok(()),
    }
}
