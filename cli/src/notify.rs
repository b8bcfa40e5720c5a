//! Tells systemd what the server does (`sd_notify`), if it has started the process as a service with `Type=notify`.

use std::convert::Infallible;
#[cfg(unix)]
use std::env;
use std::time::Duration;

/// The way to the service manager, if there is one.
#[derive(Debug)]
pub(crate) struct Notifier {
    #[cfg(unix)]
    socket: Option<std::os::unix::net::UnixDatagram>,
    /// How often it wants to hear of the process.
    watchdog: Option<Duration>,
}

#[cfg(unix)]
impl Notifier {
    /// By the variables with which systemd starts a service.
    pub(crate) fn from_environment() -> Self {
        let name = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty());
        let socket = name.and_then(|name| match connect(&name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(%error, socket = ?name, "cannot reach the service manager");
                None
            }
        });
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        // The variables may be meant for a process that has started this one.
        let is_mine = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let micros = variable("WATCHDOG_USEC").and_then(|micros| micros.parse().ok()).filter(|_| is_mine);
        let watchdog = micros.filter(|micros| *micros > 0).map(Duration::from_micros);
        Self { watchdog: watchdog.filter(|_| socket.is_some()), socket }
    }

    fn send(&self, state: &str) {
        if let Some(Err(error)) = self.socket.as_ref().map(|socket| socket.send(state.as_bytes())) {
            tracing::warn!(%error, state, "cannot notify the service manager");
        }
    }
}

#[cfg(not(unix))]
impl Notifier {
    pub(crate) fn from_environment() -> Self {
        Self { watchdog: None }
    }

    fn send(&self, _state: &str) {}
}

impl Notifier {
    /// The server answers.
    pub(crate) fn ready(&self, addrs: &str) {
        self.send(&format!("READY=1\nSTATUS=answers on {addrs}"));
    }

    /// The server reloads what can be reloaded. [`Notifier::ready`] ends that.
    pub(crate) fn reloading(&self) {
        self.send("RELOADING=1");
    }

    /// The server stops.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    /// Reports that the process lives as often as the service manager wants to hear it; never returns. It comes from the thread
    /// that serves, so it stops when that does.
    pub(crate) async fn keep_alive(&self) -> Infallible {
        let Some(watchdog) = self.watchdog else { return std::future::pending().await };
        // Twice as often as needed, as `sd_watchdog_enabled` advises.
        let mut ticks = tokio::time::interval(watchdog / 2);
        loop {
            ticks.tick().await;
            self.send("WATCHDOG=1");
        }
    }
}

/// A socket for one receiver: a path, or a name in the abstract namespace of Linux, which begins with `@` here.
#[cfg(unix)]
fn connect(name: &std::ffi::OsStr) -> std::io::Result<std::os::unix::net::UnixDatagram> {
    use std::os::unix::ffi::OsStrExt as _;
    let socket = std::os::unix::net::UnixDatagram::unbound()?;
    // A manager that does not read must not stop the server.
    socket.set_nonblocking(true)?;
    match name.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', abstract_name @ ..] => {
            use std::os::linux::net::SocketAddrExt as _;
            socket.connect_addr(&std::os::unix::net::SocketAddr::from_abstract_name(abstract_name)?)?;
        }
        _ => socket.connect(name)?,
    }
    Ok(socket)
}
