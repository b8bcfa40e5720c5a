//! Finds out which settings a server has that its answers depend on.

use bytes::Bytes;
use zoolet_proto::records::{CreateTtl, Reconfig};
use zoolet_proto::{AclList, ErrorCode, Request};

use crate::catalogue::case::Setting;
use crate::catalogue::run::Runner;
use crate::error::RunError;
use crate::wire::connection::Connection;
use crate::wire::fields::QUOTAS;
use crate::wire::requests::create;

/// A persistent znode with a TTL.
const WITH_TTL: i32 = 5;
/// Longer than anything that is judged takes, in milliseconds.
const TTL: i64 = 1_000_000;
/// A hard limit of one znode, which the root of the subtree is itself.
const LIMITS: &str = "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1";

impl Runner {
    /// Finds out which of these settings the server has, by requests in a subtree of its own. [`Setting::Super`] cannot be found out,
    /// and a server that does not answer has none of them: cases then show what it lacks.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses a znode.
    pub async fn find_settings(&self, settings: &[Setting]) -> Result<Vec<Setting>, RunError> {
        let mut found = Vec::new();
        for setting in settings {
            // A server may end a connection on which it is asked for what it does not know.
            let mut connection = self.session().await?;
            let root = self.subtree("settings");
            self.create(&mut connection, &root).await?;
            let has = match setting {
                Setting::ExtendedTypes => has_extended_types(&mut connection, &root).await,
                Setting::EnforceQuota => {
                    self.create_quota(&mut connection, &root).await?.is_none()
                        && enforces_quotas(&mut connection, &root).await
                }
                Setting::Reconfig => has_reconfig(&mut connection).await,
                Setting::Super => false,
            };
            found.extend(has.then_some(*setting));
            // Its end at some later time would be a transaction in the middle of what is compared.
            self.end(&mut connection).await;
            let mut owner = self.owner().await?;
            // What remains is found at the end.
            let _ = self.remove(&mut owner, &root, true).await;
            self.end(&mut owner).await;
        }
        Ok(found)
    }
}

async fn has_extended_types(connection: &mut Connection, root: &str) -> bool {
    let path = format!("{root}/ttl");
    let data = Some(Bytes::new());
    let create = CreateTtl { path, data, acl: Some(AclList::OPEN), flags: WITH_TTL, ttl: TTL };
    matches!(connection.ask(&Request::CreateTtl(create)).await, Ok((None, ..)))
}

async fn enforces_quotas(connection: &mut Connection, root: &str) -> bool {
    let steps = [
        (format!("{QUOTAS}{root}/zookeeper_limits"), LIMITS, None),
        (format!("{QUOTAS}{root}/zookeeper_stats"), "", None),
        (format!("{root}/second"), "", Some(ErrorCode::QuotaExceeded)),
    ];
    for (path, data, expected) in steps {
        match connection.ask(&Request::Create(create(path, data))).await {
            Ok((error, ..)) if error == expected => {}
            _ => return false,
        }
    }
    true
}

/// Without the setting every reconfig is refused for that. With it, this one is refused for something else: it names a version that no
/// configuration has, and changes nothing.
async fn has_reconfig(connection: &mut Connection) -> bool {
    let reconfig = Reconfig { joining: None, leaving: None, new_members: None, config: i64::MAX };
    let answer = connection.ask(&Request::Reconfig(reconfig)).await;
    // A server that does not know the operation at all says so without a zxid.
    matches!(answer, Ok((Some(error), zxid, _)) if error != ErrorCode::ReconfigDisabled && zxid.0 > 0)
}
