//! Who may use the commands of the admin server that read or replace the whole state (`Commands.isAuthorized`).

use std::sync::Arc;

use zoolet_proto::Perms;

use crate::access::allows;
use crate::core::Core;
use crate::identity::Identity;
use crate::message::Origin;
use crate::paths::ROOT;

/// Whether credentials are enough for the whole state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminAccess {
    /// They prove nothing, or not what is required of clients.
    NotAuthenticated,
    /// They prove somebody to whom the root does not grant everything.
    NotAuthorized,
    /// The root grants all five permissions.
    Granted,
}

impl Core {
    /// What somebody may do who shows these credentials of a scheme. Nothing else counts for him, not even his address.
    pub fn admin_access(&self, origin: &Origin, scheme: &str, credentials: Option<&str>) -> AdminAccess {
        const EACH: [Perms; 5] = [Perms::READ, Perms::WRITE, Perms::CREATE, Perms::DELETE, Perms::ADMIN];
        let ids = match (scheme, &origin.certificate) {
            ("x509", Some(subject)) => self.config.auth.identities_of_certificate(Arc::clone(subject)),
            ("digest", _) if credentials.is_none() => Vec::new(),
            _ => {
                let credentials = credentials.map(str::as_bytes);
                self.config.authenticate(Some(scheme), credentials, origin.peer, &[]).unwrap_or_default()
            }
        };
        // What clients are required to have is required here as well, or their data would go to everybody. The super user is let in
        // anyway: with SASL alone nobody else could be.
        if ids.is_empty() || !(ids.contains(&Identity::Super) || self.config.auth.suffice(&ids)) {
            return AdminAccess::NotAuthenticated;
        }
        let root = self.tree.get(ROOT).map(|node| &node.acl);
        let grants_all = |acl| EACH.into_iter().all(|perm| allows(acl, perm, &ids));
        let granted = self.config.skip_acl || root.is_some_and(grants_all);
        if granted { AdminAccess::Granted } else { AdminAccess::NotAuthorized }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use zoolet_proto::{Acl, digest_id};

    use super::*;
    use crate::auth_config::AuthScheme;
    use crate::config::CoreConfig;
    use crate::message::Millis;

    fn core(root: Acl) -> Core {
        let mut config = CoreConfig::default();
        config.auth.x509 = true;
        let mut core = Core::new(config, Millis(0));
        if let Some(node) = core.tree.nodes.get_mut(ROOT) {
            node.acl = vec![root].into();
        }
        core
    }

    fn origin(certificate: Option<&str>) -> Origin {
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Origin { certificate: certificate.map(Arc::from), ..Origin::from(peer) }
    }

    #[test]
    fn a_certificate_counts_for_its_own_scheme_alone() {
        let core = core(Acl::new(Perms::ALL, "x509", "CN=boss"));
        for (certificate, scheme, expected) in [
            (Some("CN=boss"), "x509", AdminAccess::Granted),
            (Some("CN=other"), "x509", AdminAccess::NotAuthorized),
            (None, "x509", AdminAccess::NotAuthenticated),
            (Some("CN=boss"), "ip", AdminAccess::NotAuthorized),
        ] {
            assert_eq!(
                core.admin_access(&origin(certificate), scheme, None),
                expected,
                "{certificate:?} {scheme}"
            );
        }
    }

    #[test]
    fn each_of_the_five_permissions_is_needed() {
        for missing in [Perms::READ, Perms::WRITE, Perms::CREATE, Perms::DELETE, Perms::ADMIN] {
            let core = core(Acl::new(Perms(Perms::ALL.0 & !missing.0), "world", "anyone"));
            let access = core.admin_access(&origin(None), "digest", Some("u:p"));
            assert_eq!(access, AdminAccess::NotAuthorized, "without {missing:?}");
        }
    }

    #[test]
    fn what_is_required_of_clients_is_required_here_and_the_super_user_has_it() {
        let mut core = core(Acl::new(Perms::ALL, "world", "anyone"));
        core.config.super_digest = Some(digest_id(b"super:secret"));
        for (required, scheme, credentials, expected) in [
            (AuthScheme::Sasl, "digest", Some("any:thing"), AdminAccess::NotAuthenticated),
            (AuthScheme::Sasl, "ip", None, AdminAccess::NotAuthenticated),
            (AuthScheme::Sasl, "digest", Some("super:secret"), AdminAccess::Granted),
            (AuthScheme::Digest, "digest", Some("any:thing"), AdminAccess::Granted),
        ] {
            core.config.auth.required = vec![required];
            assert_eq!(
                core.admin_access(&origin(None), scheme, credentials),
                expected,
                "{required:?} {scheme}"
            );
        }
    }
}
