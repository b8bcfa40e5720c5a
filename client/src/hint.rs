//! What a refusal means, as far as the client can know: servers return a code and nothing else.

use zoolet_proto::{Acl, ErrorCode, OpCode, OpKind, Request, path};

use crate::chroot::Chroot;
use crate::context::{ErrorDetail, MissingParent};

/// What to do about a missing parent.
const PARENTS_ADVICE: &str = "which `.parents()` creates";

/// A hint on why this was refused with `code`. `has_identity` is whether the session has added an identity.
pub(crate) fn explain(
    refused: &Request,
    code: ErrorCode,
    chroot: &Chroot,
    has_identity: bool,
) -> Option<ErrorDetail> {
    let path = refused.path().unwrap_or_default();
    let creates = refused.op().kind() == OpKind::Create;
    let parent = || chroot.strip(path::parent(path));
    let hint = match code {
        ErrorCode::NoNode if creates => match parent() {
            "/" => format!("the chroot {} does not exist", chroot.as_str()),
            path => {
                let parent = MissingParent { path: path.to_owned(), advice: PARENTS_ADVICE };
                return Some(ErrorDetail::MissingParent(Box::new(parent)));
            }
        },
        ErrorCode::NoNode if !chroot.as_str().is_empty() && !path.is_empty() => {
            format!("with the chroot, its path is {path}")
        }
        ErrorCode::NoChildrenForEphemerals if creates => format!("its parent {} is ephemeral", parent()),
        ErrorCode::BadVersion => format!("version {} was expected", expected_version(refused)?),
        ErrorCode::Unimplemented => match refused.op() {
            OpCode::CreateTtl => {
                "a time to live requires `zookeeper.extendedTypesEnabled=true` at the servers".to_owned()
            }
            OpCode::CreateContainer => "containers require servers of 3.5.3 or later".to_owned(),
            OpCode::Reconfig => "reconfig requires an ensemble, of 3.5.0 or later".to_owned(),
            op => format!("{} requires servers of {} or later", op.name(), since(op)?),
        },
        ErrorCode::SessionClosedRequireSaslAuth => {
            "this server serves only clients that have authenticated, as by `sasl_digest_md5` or with a certificate".to_owned()
        }
        ErrorCode::InvalidAcl => wrong_acl(acl_of(refused)?, has_identity)?,
        _ => return None,
    };
    Some(ErrorDetail::Hint(hint.into()))
}

/// The version that a request expects; −1 for any.
fn expected_version(request: &Request) -> Option<i32> {
    match request {
        Request::Delete(delete) => Some(delete.version),
        Request::SetData(set) => Some(set.version),
        Request::SetAcl(set) => Some(set.version),
        Request::Check(check) => Some(check.version),
        _ => None,
    }
}

fn acl_of(request: &Request) -> Option<&[Acl]> {
    match request {
        Request::Create(create) | Request::Create2(create) | Request::CreateContainer(create) => &create.acl,
        Request::CreateTtl(create) => &create.acl,
        Request::SetAcl(set) => &set.acl,
        _ => return None,
    }
    .as_deref()
}

/// The first release of Apache ZooKeeper that has an operation, if older ones are in use.
fn since(op: OpCode) -> Option<&'static str> {
    Some(match op {
        OpCode::CheckWatches | OpCode::RemoveWatches => "3.5.0",
        OpCode::AddWatch
        | OpCode::SetWatches2
        | OpCode::MultiRead
        | OpCode::GetEphemerals
        | OpCode::GetAllChildrenNumber => "3.6.0",
        OpCode::WhoAmI => "3.7.0",
        _ => return None,
    })
}

/// The first fault of an ACL that servers refuse with their own schemes.
fn wrong_acl(acl: &[Acl], has_identity: bool) -> Option<String> {
    if acl.is_empty() {
        return Some("the list has no entry".to_owned());
    }
    acl.iter().find_map(|entry| {
        let id = entry.id.as_str();
        match entry.scheme.as_str() {
            "world" if id != "anyone" => Some(format!("the id of scheme world is anyone, not {id:?}")),
            "auth" if !has_identity => {
                Some("scheme auth stands for the identities of this session, which has none".to_owned())
            }
            "digest" if id.split(':').count() != 2 => {
                Some("the id of scheme digest is user:hash; see `Acl::digest`".to_owned())
            }
            "ip" => {
                let (address, bits) = id.split_once('/').unwrap_or((id, "0"));
                let valid = address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok();
                (!valid).then(|| format!("{id:?} is no address and no address/bits"))
            }
            "world" | "auth" | "digest" => None,
            scheme => Some(format!("scheme {scheme:?} is perhaps unknown to the server")),
        }
    })
}

#[cfg(test)]
mod tests {
    use zoolet_proto::Perms;

    use super::*;

    #[test]
    fn the_first_fault_of_an_acl_is_named() {
        let acl = |scheme: &str, id: &str| vec![Acl::new(Perms::ALL, scheme, id)];
        for (acl, fault) in [
            (vec![], "no entry"),
            (acl("world", "everybody"), "everybody"),
            (acl("auth", ""), "identities"),
            (acl("digest", "user"), "user:hash"),
            (acl("ip", "10.0.0"), "10.0.0"),
            (acl("ip", "10.0.0.0/x"), "10.0.0.0/x"),
            (acl("kerberos", "me"), "kerberos"),
        ] {
            let hint = wrong_acl(&acl, false).expect(fault);
            assert!(hint.contains(fault), "{hint}");
        }
        for acl in [acl("world", "anyone"), acl("digest", "u:h"), acl("ip", "::1/64"), acl("ip", "10.0.0.1")]
        {
            assert_eq!(wrong_acl(&acl, false), None);
        }
        assert_eq!(wrong_acl(&acl("auth", ""), true), None);
    }
}
