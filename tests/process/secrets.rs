//! Secrets stay out of logs and of debug output.

use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tracing_subscriber::fmt::MakeWriter;
use zoolet::server::SaslUsers;
use zoolet_proto::Acl;
use zoolet_proto::digest_md5::respond;
use zoolet_proto::records::SaslToken;
use zoolet_test_support::*;

use crate::alone;

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("a log")).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("a log").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

const PASSWORD: &str = "open-sesame";
const SASL_PASSWORD: &str = "shut-sesame";
const SASL_TOKEN: &str = "5d0921a7597c0e79483d9156df5412f7";
/// base64(sha1("ali:open-sesame"))
const DIGEST: &str = "Kz6jdc4U6rKfTLJWdDJTT8YZz2c=";

#[test]
fn no_secret_is_logged_at_any_level() {
    alone(true, async {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        let guard = tracing::subscriber::set_default(subscriber);
        let super_digest = format!("super:{DIGEST}");
        let users = SaslUsers::new()
            .user("ali", PASSWORD)
            .user("bob", SASL_PASSWORD)
            .user("super", "replaced")
            .super_password(SASL_PASSWORD);
        let zk = Zk::with(|settings| settings.super_digest(&super_digest).sasl(users).audit(true)).await;

        let mut wire = zk.wire().await;
        wire.ask(auth("digest", &format!("ali:{PASSWORD}"))).await;
        wire.ask(create("/a").acl(Acl::creator_all())).await;
        wire.ask(get_acl("/a")).await;
        wire.ask(set_acl("/a", vec![Acl::new(zoolet_proto::Perms::ALL, "digest", format!("ali:{DIGEST}"))]))
            .await;
        let token =
            |token: &[u8]| zoolet_proto::Request::Sasl(SaslToken(Some(Bytes::copy_from_slice(token))));
        let Reply::Sasl(Some(challenge)) = wire.ask(token(PASSWORD.as_bytes())).await.reply else {
            panic!("no challenge")
        };
        let response = respond(&challenge, "ali", PASSWORD, "cnonce").expect("a challenge");
        wire.ask(token(response.token())).await;
        let mut stranger = zk.wire().await;
        stranger.ask(token(b"")).await;
        stranger.send(token(PASSWORD.as_bytes()).xid(2)).await;
        stranger.expect(reply(2).error(ErrorCode::AuthFailed)).await;
        let welcome = wire.welcome.clone();
        let mut sasl = zk.wire().await;
        sasl.ask(zoolet_proto::Request::Sasl(SaslToken(Some(Bytes::new())))).await;
        let token = format!("username=\"bob\",realm=\"zk-sasl-md5\",response={SASL_TOKEN}");
        sasl.send(zoolet_proto::Request::Sasl(SaslToken(Some(token.into())))).await;
        assert_eq!(sasl.rest().await.len(), 24, "a refusal with a null token");
        let mut moved = zk.connect(Hello::again(&welcome)).await;
        assert!(zk.raw().hello(Hello::again(&welcome).password(PASSWORD.as_bytes())).await.is_refusal());
        moved.expect_closed().await;
        let mut refused = zk.wire().await;
        refused.send(auth("none", PASSWORD).xid(1)).await;
        refused.expect(reply(1).error(ErrorCode::AuthFailed)).await;
        let mut spoilt = zk.wire().await;
        spoilt.send_raw(1, OpCode::Auth.code(), &auth("digest", PASSWORD).body()[..20]).await;
        spoilt.expect_closed().await;
        let mut garbage = zk.raw();
        garbage.send_bytes(PASSWORD.as_bytes()).await;
        garbage.expect_closed().await;
        zk.shutdown().await;
        drop(guard);

        let text = log.text();
        assert!(
            text.contains("session opened")
                && text.contains("wrong session password")
                && text.contains("authenticated by SASL")
                && text.contains("SASL authentication failed")
                && text.contains("request")
                && text.contains("operation=\"setAcl\""),
            "nothing was logged:\n{text}"
        );
        let password: String = welcome.password.iter().map(|byte| format!("{byte:02x}")).collect();
        let listed = format!("{:?}", welcome.password);
        let response = String::from_utf8_lossy(response.token()).into_owned();
        let proof =
            response.split("response=").nth(1).expect("a response").split(',').next().expect("a hash");
        for secret in [
            PASSWORD,
            DIGEST,
            SASL_PASSWORD,
            SASL_TOKEN,
            proof,
            &password,
            &listed,
            &format!("{:?}", &welcome.password[..]),
        ] {
            assert!(!text.contains(secret), "{secret} was logged:\n{text}");
        }
    });
}
