//! [`Connecting`]: from options and a transport to a client.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::Instrument;
use zoolet_proto::frame::PREFIX;
use zoolet_proto::{Request, SessionId};
#[cfg(feature = "tls")]
use zoolet_tls::ClientTls;

use super::ConnectOptions;
use crate::chroot::Chroot;
use crate::client::Client;
use crate::context::ErrorContext;
use crate::driver::SessionDriver;
use crate::error::Error;
use crate::server_list::ServerList;
use crate::session::{SaslCredentials, Session};
use crate::state::{SessionState, SharedState};
use crate::transport::Transport;

/// A session that is being opened, from [`ConnectOptions::connect`]: a `'static` future.
#[must_use = "a session is opened by `.await`"]
pub struct Connecting(Pin<Box<dyn Future<Output = Result<Client, Error>> + Send>>);

impl Connecting {
    pub(super) fn new(opened: impl Future<Output = Result<Client, Error>> + Send + 'static) -> Self {
        Self(Box::pin(opened))
    }
}

impl Future for Connecting {
    type Output = Result<Client, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connecting")
    }
}

impl ConnectOptions {
    pub(super) async fn open(mut self, transport: Transport) -> Result<Client, Error> {
        let servers = transport.servers();
        let security = servers.as_ref().map(|servers| servers.security().clone()).unwrap_or_default();
        self.session.sasl = sasl_of(security.user, self.session.sasl)?;
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let chroot_of_target = servers.as_ref().map_or("", ServerList::chroot);
        let chroot = self.chroot.as_deref().unwrap_or(chroot_of_target);
        let chroot = Chroot::new(chroot)
            .map_err(|reason| Error::InvalidTarget(format!("chroot {chroot:?}: {reason}")))?;
        if self.session.resume.as_ref().is_some_and(|(id, _)| *id == SessionId(0)) {
            return Err(Error::InvalidTarget("resume: 0 is not the id of a session".to_owned()));
        }
        #[cfg(feature = "tls")]
        let transport = match self.tls.take().or_else(|| security.tls.then(ClientTls::new)) {
            Some(tls) => {
                let tls = crate::tls_stream::load(tls, servers.is_some()).await?;
                transport.secured(tls)
            }
            None => transport,
        };
        // Now, because nobody awaits the session's own requests: it would be without this identity.
        for auth in &self.session.auths {
            let (size, max) = (Request::Auth(auth.clone()).encoded_len() - PREFIX, self.session.max_request);
            if size > max {
                let context = ErrorContext::local("addAuth", "");
                return Err(Error::RequestTooLarge { context, size, max });
            }
        }
        // One generator in this order, so that a seed gives the same hosts, jitter and names.
        let mut rng = self.seed.map_or_else(rand::make_rng, StdRng::seed_from_u64);
        if let Some(servers) = &servers {
            servers.shuffle(&mut rng);
            #[cfg(feature = "dns-srv")]
            servers.ask(self.dns_servers.clone(), self.clock.clone(), &mut rng);
        }
        self.session.seed = rng.random();
        let shared = Arc::new(SharedState::new(&self, servers, rng));
        let Self { clock, session: settings, .. } = self;
        let connect_timeout = settings.connect_timeout;
        let (sender, receiver) = mpsc::unbounded_channel();
        let session = Session::new(settings, Arc::clone(&shared), sender.downgrade(), clock.now());
        let span = tracing::debug_span!("session", id = tracing::field::Empty);
        runtime.spawn(SessionDriver::new(session, transport, receiver, clock.clone()).run().instrument(span));

        let client =
            Client { commands: sender, shared: Arc::clone(&shared), chroot, runtime, is_limited: true };
        // `client` is dropped if this is, or times out: the driver then closes what it has opened by then.
        let connected = shared.wait_for(|state| state != SessionState::Connecting);
        match clock.timeout(connect_timeout, connected).await {
            Ok(state) if state.is_final() => match shared.last_failure() {
                // With this failure such a session ends, and with another reason any.
                Some(failure)
                    if state == SessionState::Closed && failure.kind() == io::ErrorKind::Unsupported =>
                {
                    Err(Error::InvalidTarget(failure.to_string()))
                }
                _ => Err(shared.end_error(ErrorContext::local("connect", ""))),
            },
            Ok(_) => Ok(client),
            Err(_) => Err(Error::Unreachable { timeout: connect_timeout, hosts: shared.unreachable_hosts() }),
        }
    }
}

/// Who authenticates: the user of the connect string, or of the options. The password is of the options.
fn sasl_of(
    user: Option<String>,
    credentials: Option<SaslCredentials>,
) -> Result<Option<SaslCredentials>, Error> {
    let invalid = |reason: String| Err(Error::InvalidTarget(reason));
    match (user, credentials) {
        (Some(user), None) => {
            invalid(format!("SASL: {user} has no password: give it by `ConnectOptions::sasl_password`"))
        }
        (Some(user), Some(given)) if !given.user.is_empty() && given.user != user => {
            invalid(format!("SASL: the connect string names {user}, and `sasl_digest_md5` {}", given.user))
        }
        (None, Some(given)) if given.user.is_empty() => invalid(
            "SASL: there is a password and no user: name one before the hosts, as in \"alice@zk1:2181\""
                .to_owned(),
        ),
        (user, given) => Ok(given.map(|given| SaslCredentials { user: user.unwrap_or(given.user), ..given })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_of_the_connect_string_or_of_the_options_and_the_password_of_the_options() {
        let given = |user: &str| Some(SaslCredentials::new(user.to_owned(), "secret".to_owned()));
        for (user, options, expected) in [
            (None, None, Ok(None)),
            (None, given("bob"), Ok(Some("bob"))),
            (Some("alice"), given(""), Ok(Some("alice"))),
            (Some("alice"), given("alice"), Ok(Some("alice"))),
            (Some("alice"), given("bob"), Err("the connect string names alice, and `sasl_digest_md5` bob")),
            (Some("alice"), None, Err("alice has no password: give it by `ConnectOptions::sasl_password`")),
            (None, given(""), Err("name one before the hosts")),
        ] {
            match (sasl_of(user.map(str::to_owned), options), expected) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!(found.as_ref().map(|found| &*found.user), expected);
                    assert!(found.is_none_or(|found| found.password == "secret"));
                }
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{error}");
                    assert!(!error.to_string().contains("secret"), "{error}");
                }
                (found, expected) => panic!("{found:?} for {expected:?}"),
            }
        }
    }
}
