//! ACLs and authentication.

use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Error, Permission, SessionState};

use crate::checks::{check, control, equal, in_time, refused, Outcome};
use crate::{connect, connector, hosts, PERSISTENT};

pub async fn run(client: &Client) -> Outcome {
    let bob_only = [Acl::new(Permission::ALL, AuthId::new("digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="))];
    check("get and set ACL, right and wrong version", get_and_set(client, &bob_only)).await;
    check("digest: denied without", denied(client)).await;
    check("digest: allowed with auth, and after a reconnect", allowed(&bob_only)).await;
    check("auth scheme: the creator's own id", creator(&bob_only)).await;
    check("auth with an unknown scheme fails", unknown_scheme()).await;
    Ok(())
}

async fn get_and_set(client: &Client, bob_only: &[Acl]) -> Outcome {
    client.create("/acl", b"secret", PERSISTENT).await?;
    let (acls, stat) = client.get_acl("/acl").await?;
    equal((acls.as_slice(), stat.aversion), (&*Acls::anyone_all(), 0))?;
    refused(client.set_acl("/acl", bob_only, Some(7)).await, Error::BadVersion)?;
    let nonsense = [Acl::new(Permission::ALL, AuthId::new("nonsense", "x"))];
    refused(client.set_acl("/acl", &nonsense, None).await, Error::InvalidAcl)?;
    equal(client.set_acl("/acl", bob_only, Some(0)).await?.aversion, 1)
}

async fn denied(client: &Client) -> Outcome {
    refused(client.get_data("/acl").await, Error::NoAuth)?;
    refused(client.set_data("/acl", b"", None).await, Error::NoAuth)?;
    refused(client.check_stat("/acl").await, Error::NoAuth)?;
    refused(client.get_children("/acl").await, Error::NoAuth)?;
    refused(client.create("/acl/x", b"", PERSISTENT).await, Error::NoAuth)?;
    refused(client.set_acl("/acl", &Acls::anyone_all(), None).await, Error::NoAuth)
}

async fn allowed(bob_only: &[Acl]) -> Outcome {
    let bob = connect(6000).await?;
    bob.auth("digest", b"bob:pw").await?;
    equal(bob.get_data("/acl").await?.0, b"secret".to_vec())?;
    equal(bob.get_acl("/acl").await?.0, bob_only.to_vec())?;
    let users: Vec<String> = bob.list_auth_users().await?.iter().map(|user| user.user().to_owned()).collect();
    equal(users.contains(&"bob".to_owned()), true)?;
    let mut states = bob.state_watcher();
    states.state();
    control("cut").await?;
    while in_time("the reconnect", states.changed()).await? != SessionState::SyncConnected {}
    equal(bob.get_data("/acl").await?.0, b"secret".to_vec())
}

async fn creator(bob_only: &[Acl]) -> Outcome {
    let bob = connector(6000).with_auth("digest", b"bob:pw").connect(&hosts()).await?;
    bob.create("/acl-auth", b"", &CreateMode::Persistent.with_acls(Acls::creator_all())).await?;
    let mut expected = bob_only.to_vec();
    for line in std::env::var("ZK_IDENTITIES").unwrap_or_default().lines() {
        let (scheme, id) = line.split_once(' ').unwrap();
        expected.push(Acl::new(Permission::ALL, AuthId::new(scheme, id)));
    }
    let mut got = bob.get_acl("/acl-auth").await?.0;
    for list in [&mut got, &mut expected] {
        list.sort_by(|a, b| a.scheme().cmp(b.scheme()));
    }
    equal(got, expected)
}

async fn unknown_scheme() -> Outcome {
    let other = connect(6000).await?;
    refused(other.auth("nonsense", b"x").await, Error::AuthFailed)
}
