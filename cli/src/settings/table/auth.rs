//! Who may authenticate how, and who must.

use zoolet_server::{AuthScheme, ServerBuilder};

use super::{BOOL, FILE, SettingRow, flag, key};
use crate::settings::secret::Secret;
use crate::settings::written::Written;
use crate::settings::{Settings, put};
use crate::text::quoted;

pub(super) const ROWS: &[SettingRow] = &[
    flag("jaas", FILE, "none")
        .builder("ServerBuilder::sasl")
        .key("java.security.auth.login.config")
        .help("JAAS file with the users of SASL DIGEST-MD5, as Apache ZooKeeper reads it")
        .sets(|to, value| put(&mut to.auth.jaas, value.file().map(Some))),
    key("sasl.serverconfig", "NAME", "Server")
        .builder("SaslUsers::from_jaas")
        .help("Section of the JAAS file with the users")
        .sets(|to, value| put(&mut to.auth.section, value.name().map(Some))),
    key("SASLAuthenticationProvider.superPassword", "TEXT", "that of the file")
        .builder("SaslUsers::super_password")
        .secret()
        .help("Password of the SASL user super, if the JAAS file has one")
        .sets(|to, value| {
            put(&mut to.auth.super_password, value.name().map(|text| Some(Secret(text))))
        }),
    key("superUser", "NAME", "none")
        .builder("ServerBuilder::sasl_super_user")
        .help("SASL user whom no ACL restricts")
        .sets(super_user),
    key("superUser.", "NAME", "none")
        .builder("ServerBuilder::sasl_super_user")
        .help("More of these, such as superUser.2")
        .sets(super_user),
    key("X509AuthenticationProvider.superUser", "SUBJECT", "none")
        .builder("ServerBuilder::x509_super_user")
        .help("Subject of the certificate that no ACL restricts, exactly as whoAmI shows it")
        .sets(|to, value| to.server(ServerBuilder::x509_super_user, value.name())),
    key("authProvider.", "CLASS", "those of digest and ip")
        .builder("ServerBuilder::sasl_scheme")
        .help("Scheme of ACLs, by its class in Apache ZooKeeper: sasl and x509 as well. With users of SASL, and with TLS, they are known anyway")
        .sets(provider),
    key("DigestAuthenticationProvider.enabled", BOOL, "true")
        .builder("ServerBuilder::digest")
        .help("Know the scheme digest")
        .sets(|to, value| put(&mut to.auth.without_digest, value.boolean().map(|with| !with))),
    key("enforce.auth.enabled", BOOL, "false")
        .builder("ServerBuilder::enforce_auth")
        .help("Serve only connections with an identity of one of enforce.auth.schemes")
        .sets(|to, value| put(&mut to.auth.enforce, value.boolean())),
    key("enforce.auth.schemes", "NAMES", "none")
        .builder("ServerBuilder::enforce_auth")
        .help("Of sasl, x509, digest and ip")
        .sets(|to, value| put(&mut to.auth.schemes, schemes(value.text()))),
    key("sessionRequireClientSASLAuth", BOOL, "false")
        .builder("ServerBuilder::enforce_auth")
        .help("Serve only connections that have authenticated by SASL, whatever enforce.auth says")
        .sets(|to, value| put(&mut to.auth.require_sasl, value.boolean())),
    key("allowSaslFailedClients", BOOL, "false")
        .builder("ServerBuilder::allow_sasl_failed_clients")
        .help("Keep the connection of a client that fails to authenticate by SASL, without an identity")
        .sets(|to, value| to.server(ServerBuilder::allow_sasl_failed_clients, value.boolean())),
];

fn super_user(to: &mut Settings, value: Written<'_>) -> Result<(), String> {
    to.auth.has_super_user = true;
    to.server(ServerBuilder::sasl_super_user, value.name())
}

/// `authProvider.NAME=CLASS`.
fn provider(to: &mut Settings, value: Written<'_>) -> Result<(), String> {
    match value.text().strip_prefix("org.apache.zookeeper.server.auth.") {
        Some("SASLAuthenticationProvider") => to.auth.sasl = true,
        Some("X509AuthenticationProvider") => to.auth.x509 = true,
        Some("DigestAuthenticationProvider" | "IPAuthenticationProvider") => {}
        _ => {
            return Err(
                "an authentication provider other than those of digest, ip, sasl and x509 is not supported; \
                        remove the key to run without it"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

fn schemes(text: &str) -> Result<Vec<AuthScheme>, String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let scheme = |name| {
        AuthScheme::from_name(name).ok_or_else(|| {
            let known: Vec<_> = AuthScheme::ALL.iter().map(|scheme| scheme.name()).collect();
            format!("{}: must be schemes of {}", quoted(name), known.join(", "))
        })
    };
    names.map(scheme).collect()
}
