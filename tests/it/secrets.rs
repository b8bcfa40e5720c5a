//! Secrets stay out of debug output and of errors; `tests/process` looks at the logs.

use zoolet::server::Server;
use zoolet_proto::{Acl, Perms};
use zoolet_test_support::{RequestExt as _, auth, create};

const PASSWORD: &str = "open-sesame";
/// base64(sha1("ali:open-sesame"))
const DIGEST: &str = "Kz6jdc4U6rKfTLJWdDJTT8YZz2c=";

#[test]
fn settings_do_not_show_the_super_digest() {
    let shown = format!("{:?}", Server::builder().super_digest(format!("super:{DIGEST}")));
    assert!(!shown.contains(DIGEST), "{shown}");
}

#[tokio::test]
async fn an_invalid_super_digest_is_refused_and_not_shown() {
    let refused = Server::builder().super_digest("super:open-sesame").start().await.expect_err("a password");
    assert_eq!(
        refused.to_string(),
        "super_digest = (not shown): must be user:base64(sha1(user:password)), 28 characters after the colon"
    );
}

#[test]
fn handshakes_and_auth_packets_do_not_show_what_they_carry() {
    let shown = format!("{:?}", auth("digest", &format!("ali:{PASSWORD}")));
    assert!(shown.contains("digest") && !shown.contains(PASSWORD), "{shown}");
    let acl =
        format!("{:?}", create("/a").acl(vec![Acl::new(Perms::ALL, "digest", format!("ali:{DIGEST}"))]));
    assert!(acl.contains("ali") && !acl.contains(DIGEST), "{acl}");
}
