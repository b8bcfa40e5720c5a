//! [`Runner`]: runs cases on a server.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::records::{AuthPacket, Exists, SetData};
use zoolet_proto::{ErrorCode, Reply, Request, Zxid};

use crate::catalogue::case::Case;
use crate::catalogue::cleanup::{Unremoved, remove};
use crate::catalogue::pattern::{Names, SUPER_NAME};
use crate::catalogue::scene::Scene;
use crate::error::RunError;
use crate::wire::connection::Connection;
use crate::wire::fields::{QUOTAS, Value};
use crate::wire::requests::create;

/// The outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseOutcome {
    /// Everything came as it must.
    Passed,
    /// Something else came.
    Failed(Failure),
}

/// What was sent, what was expected, and what came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The steps up to the one that failed, as the case writes them.
    pub steps: Vec<String>,
    /// What is wrong.
    pub reason: String,
    /// What came, as a case would write it; none if nothing did.
    pub came: Option<String>,
}

/// The steps and what came, a line each.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "      {step}"))?;
        self.came.iter().try_for_each(|came| writeln!(f, "    came: {came}"))
    }
}

/// Runs cases on a server. Each gets a subtree of its own, which is deleted afterwards.
#[derive(Debug)]
pub struct Runner {
    /// The server, as HOST:PORT.
    pub(crate) address: String,
    /// How long the server may take for an answer.
    pub(crate) limit: Duration,
    /// The parent of the subtrees.
    root: String,
    /// Those of the super user.
    credentials: Option<String>,
}

/// Cases of this group have a place for quotas.
pub(crate) const QUOTA_GROUP: &str = "quota";

impl Runner {
    /// Connects to a server, and creates a znode for all cases. `run` tells it from that of other runs on the same server. An answer
    /// that has not come after `limit` is missing; [`ANSWER_LIMIT`](crate::ANSWER_LIMIT) is long enough for a server that does nothing else.
    ///
    /// # Errors
    /// If the server cannot be reached, does not answer as a ZooKeeper does, or refuses the znode.
    pub async fn new(address: &str, run: u64, limit: Duration) -> Result<Self, RunError> {
        let runner = Self {
            address: address.to_owned(),
            limit,
            root: format!("/zoolet-conformance-{run:x}"),
            credentials: None,
        };
        let mut owner = runner.owner().await?;
        runner.create(&mut owner, &runner.root).await?;
        runner.end(&mut owner).await;
        Ok(runner)
    }

    /// Takes credentials of the scheme `digest` for the super user, such as `super:secret`. Cases with [`Setting::Super`](crate::Setting)
    /// need them. They are tried: with wrong ones, those cases would lock znodes for ever.
    ///
    /// # Errors
    /// If they are not those of the super user, that cannot be found out, or the server cannot be reached.
    pub async fn set_super_credentials(&mut self, credentials: &str) -> Result<(), RunError> {
        self.credentials = Some(credentials.to_owned());
        let mut owner = self.owner().await?;
        // Nobody else may write this znode, which never has such a version.
        let config =
            SetData { path: "/zookeeper/config".to_owned(), data: Some(Bytes::new()), version: i32::MAX };
        let outcome = owner.ask(&Request::SetData(config)).await;
        self.end(&mut owner).await;
        let reason = match outcome {
            Ok((Some(ErrorCode::BadVersion), ..)) => return Ok(()),
            Ok((Some(ErrorCode::NoAuth), ..)) => "the credentials are not those of its super user".to_owned(),
            Ok((error, ..)) => {
                let answer = error.map_or_else(|| "ok".to_owned(), |error| error.to_string());
                format!(
                    "the credentials cannot be tried: it answers a setData of /zookeeper/config with: {answer}"
                )
            }
            Err(error) => error.to_string(),
        };
        self.credentials = None;
        Err(self.fail(&reason))
    }

    /// Runs a case to its end or to its first failure, and removes what it has left. Several can run at the same time.
    ///
    /// # Errors
    /// If the server cannot be reached, also in the middle of the case, or the znode of the case cannot be created.
    pub async fn run(&self, case: &Case) -> Result<CaseOutcome, RunError> {
        let root = self.subtree(&case.name.replace('/', "-"));
        let mut owner = self.owner().await?;
        self.create(&mut owner, &root).await?;
        let needs_quota = case.group() == QUOTA_GROUP;
        let refused = if needs_quota { self.create_quota(&mut owner, &root).await? } else { None };
        let failed = |reason| CaseOutcome::Failed(Failure { steps: Vec::new(), reason, came: None });
        let mut outcome = match refused {
            Some(reason) => failed(reason),
            None => {
                let played = Scene::new(self, &root).play(case).await;
                played.map_err(|reason| self.fail(&format!("{reason}, in the case {}", case.name)))?
            }
        };
        let removed = self.remove(&mut owner, &root, needs_quota).await;
        // If it has said nothing, whether something is left is found out at the end.
        if let (CaseOutcome::Passed, Err(Unremoved::Unruly(what))) = (&outcome, removed) {
            outcome = failed(format!("its znode cannot be removed: {what}"));
        }
        self.end(&mut owner).await;
        Ok(outcome)
    }

    /// Removes the znode of all cases, also those of cases that were given up.
    ///
    /// # Errors
    /// If something remains: what, and why.
    pub async fn finish(&self) -> Result<(), RunError> {
        let left = |reason: &str| self.fail(&format!("{} remains: {reason}", self.root));
        let mut owner = self.owner().await.map_err(|error| left(&error.reason))?;
        let exists = Request::Exists(Exists { path: self.root.clone(), watch: false });
        // A case that was given up may create something while this goes on, so that the second time finds more.
        for _ in 0..2 {
            let removed = self.remove(&mut owner, &self.root, true).await;
            let is_locked = removed.map_err(|why| left(&why.to_string()))?;
            let (error, ..) = owner.ask(&exists).await.map_err(|error| left(&error.to_string()))?;
            if error.is_some() || is_locked {
                self.end(&mut owner).await;
            }
            if error.is_some() {
                return Ok(());
            }
            if is_locked {
                return Err(RunError { is_locked: true, ..left("something below it cannot be deleted") });
            }
        }
        Err(left("it is still there after it was deleted"))
    }

    /// The path of a subtree of its own.
    pub(crate) fn subtree(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    /// A session of nobody in particular.
    pub(crate) async fn session(&self) -> Result<Connection, RunError> {
        Connection::with_session(&self.address, self.limit).await
    }

    /// A session to create and remove the subtrees with: that of the super user, if it is known, who can remove everything.
    pub(crate) async fn owner(&self) -> Result<Connection, RunError> {
        let mut owner = self.session().await?;
        if let Some(credentials) = &self.credentials {
            let auth = Bytes::copy_from_slice(credentials.as_bytes());
            let auth = AuthPacket { kind: 0, scheme: Some("digest".to_owned()), auth: Some(auth) };
            self.ask(&mut owner, &Request::Auth(auth)).await?;
        }
        Ok(owner)
    }

    /// Creates a znode, and returns the zxid of that.
    pub(crate) async fn create(&self, owner: &mut Connection, path: &str) -> Result<Zxid, RunError> {
        match self.ask(owner, &Request::Create(create(path, ""))).await? {
            (None, zxid, _) => Ok(zxid),
            (Some(error), ..) => Err(self.fail(&format!("it refuses to create {path}: {error}"))),
        }
    }

    async fn ask(
        &self,
        owner: &mut Connection,
        request: &Request,
    ) -> Result<(Option<ErrorCode>, Zxid, Reply), RunError> {
        owner.ask(request).await.map_err(|error| self.fail(&error.to_string()))
    }

    /// Removes a subtree as far as it can be, and the place for its quota if it has one. Returns whether something is locked.
    pub(crate) async fn remove(
        &self,
        owner: &mut Connection,
        root: &str,
        has_quota: bool,
    ) -> Result<bool, Unremoved> {
        let is_locked = has_quota && remove(owner, &quota(root)).await?;
        Ok(remove(owner, root).await? || is_locked)
    }

    /// Creates the place for the quota of a subtree. Returns why there is none, if the server refuses it: it may have no quotas.
    pub(crate) async fn create_quota(
        &self,
        owner: &mut Connection,
        root: &str,
    ) -> Result<Option<String>, RunError> {
        // That of all subtrees may exist.
        self.ask(owner, &Request::Create(create(quota(&self.root), ""))).await?;
        let (error, ..) = self.ask(owner, &Request::Create(create(quota(root), ""))).await?;
        Ok(error.map(|error| format!("{} cannot be created: {error}", quota(root))))
    }

    /// The value that cases and moves name `$super`.
    pub(crate) fn named_credentials(&self) -> Names {
        let credentials = self.credentials.as_deref().map(|text| Bytes::copy_from_slice(text.as_bytes()));
        credentials.map(|bytes| (SUPER_NAME.to_owned(), Value::Data(Some(bytes)))).into_iter().collect()
    }

    pub(crate) async fn end(&self, owner: &mut Connection) {
        let _ = owner.ask(&Request::CloseSession).await;
    }

    pub(crate) fn fail(&self, reason: &str) -> RunError {
        let (address, reason) = (self.address.clone(), reason.to_owned());
        RunError { address, reason, is_locked: false, may_be_starting: false }
    }
}

/// Where the quota of a path is.
fn quota(path: &str) -> String {
    format!("{QUOTAS}{path}")
}
