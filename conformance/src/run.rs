//! [`Runner`]: runs cases on a server.

use bytes::Bytes;
use thiserror::Error;
use zoolet_proto::records::{Create, Delete, GetChildren, SetAcl};
use zoolet_proto::{Acl, Reply, Request, Zxid};

use crate::case::Case;
use crate::connection::Connection;
use crate::fields::Value;
use crate::pattern::Names;
use crate::request::QUOTAS;
use crate::scene::Scene;

/// What has become of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
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

/// Nothing can be judged.
#[derive(Debug, Error)]
#[error("{address}: {reason}")]
pub struct RunError {
    address: String,
    reason: String,
}

/// Runs cases on a server. Each gets a subtree of its own, which is deleted afterwards.
#[derive(Debug)]
pub struct Runner {
    address: String,
    /// The parent of the subtrees.
    root: String,
    /// Those of the super user.
    credentials: Option<String>,
}

/// Cases of this group have a place for quotas.
pub(crate) const QUOTA_GROUP: &str = "quota";

impl Runner {
    /// Connects to a server, and creates a znode for all cases. `run` tells it from that of other runs on the same server.
    ///
    /// # Errors
    /// If the server cannot be reached, answers as no ZooKeeper does, or refuses the znode.
    pub async fn new(address: &str, run: u64) -> Result<Self, RunError> {
        let runner = Self {
            address: address.to_owned(),
            root: format!("/zoolet-conformance-{run:x}"),
            credentials: None,
        };
        let mut owner = runner.owner().await?;
        runner.create(&mut owner, &runner.root).await?;
        runner.end(&mut owner).await;
        Ok(runner)
    }

    /// Credentials of the scheme `digest` for the super user, such as `super:secret`. Cases with [`Setting::Super`](crate::Setting)
    /// need them.
    pub fn super_credentials(self, credentials: impl Into<String>) -> Self {
        Self { credentials: Some(credentials.into()), ..self }
    }

    /// Runs a case to its end or to its first failure, and removes what it has left. Several can run at the same time.
    ///
    /// # Errors
    /// If the server cannot be reached, or the znode of the case cannot be created.
    pub async fn run(&self, case: &Case) -> Result<Outcome, RunError> {
        let root = self.subtree(&case.name.replace('/', "-"));
        let mut owner = self.owner().await?;
        self.create(&mut owner, &root).await?;
        if case.group() == QUOTA_GROUP {
            self.create_quota(&mut owner, &root).await?;
        }
        let scene = Scene::new(&self.address, &root, self.named_credentials());
        let outcome = match scene.play(case).await {
            Ok(()) => Outcome::Passed,
            Err(failure) => Outcome::Failed(failure),
        };
        if case.group() == QUOTA_GROUP {
            self.remove_quota(&mut owner, &root).await;
        }
        self.remove(&mut owner, &root).await;
        self.end(&mut owner).await;
        Ok(outcome)
    }

    /// Removes the znode of all cases.
    pub async fn finish(self) {
        if let Ok(mut owner) = self.owner().await {
            self.remove(&mut owner, &self.root).await;
            self.remove(&mut owner, &quota(&self.root)).await;
            self.end(&mut owner).await;
        }
    }

    /// The server, as HOST:PORT.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The path of a subtree of its own.
    pub(crate) fn subtree(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    /// A session to create and remove the subtrees with.
    pub(crate) async fn owner(&self) -> Result<Connection, RunError> {
        Connection::with_session(&self.address).await.map_err(|reason| self.fail(&reason))
    }

    /// Creates a znode, and returns the zxid of that.
    pub(crate) async fn create(&self, owner: &mut Connection, path: &str) -> Result<Zxid, RunError> {
        let create =
            Create { path: path.to_owned(), data: Some(Bytes::new()), acl: Some(Acl::open()), flags: 0 };
        match owner.ask(&Request::Create(create)).await {
            Ok((None, zxid, _)) => Ok(zxid),
            Ok((Some(error), ..)) => Err(self.fail(&format!("it refuses to create {path}: {error}"))),
            Err(silence) => Err(self.fail(&silence.to_string())),
        }
    }

    /// Removes a subtree as far as it can be: a case may have locked itself out.
    pub(crate) async fn remove(&self, owner: &mut Connection, root: &str) {
        let mut paths = vec![root.to_owned()];
        let mut at = 0;
        while let Some(path) = paths.get(at).cloned() {
            at += 1;
            // A case that has failed may not have come to where it lets everybody in again.
            let open = SetAcl { path: path.clone(), acl: Some(Acl::open()), version: -1 };
            let _ = owner.ask(&Request::SetAcl(open)).await;
            let list = Request::GetChildren(GetChildren { path: path.clone(), watch: false });
            if let Ok((None, _, Reply::Children(names))) = owner.ask(&list).await {
                paths.extend(names.iter().map(|name| format!("{path}/{name}")));
            }
        }
        for path in paths.into_iter().rev() {
            let _ = owner.ask(&Request::Delete(Delete { path, version: -1 })).await;
        }
    }

    /// Creates the place for the quota of a subtree.
    pub(crate) async fn create_quota(&self, owner: &mut Connection, root: &str) -> Result<(), RunError> {
        // That of all subtrees may exist.
        let _ = self.create(owner, &quota(&self.root)).await;
        self.create(owner, &quota(root)).await.map(drop)
    }

    pub(crate) async fn remove_quota(&self, owner: &mut Connection, root: &str) {
        self.remove(owner, &quota(root)).await;
    }

    /// The value that cases and moves name `$super`.
    pub(crate) fn named_credentials(&self) -> Names {
        let credentials = self.credentials.as_deref().map(|text| Bytes::copy_from_slice(text.as_bytes()));
        credentials.map(|bytes| ("super".to_owned(), Value::Data(Some(bytes)))).into_iter().collect()
    }

    pub(crate) async fn end(&self, owner: &mut Connection) {
        let _ = owner.ask(&Request::CloseSession).await;
    }

    pub(crate) fn fail(&self, reason: &str) -> RunError {
        RunError { address: self.address.clone(), reason: reason.to_owned() }
    }
}

/// Where the quota of a path is.
fn quota(path: &str) -> String {
    format!("{QUOTAS}{path}")
}
