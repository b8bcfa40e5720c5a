//! Runs the binary. Waits only for its output and its exit, never for a time.

#![allow(dead_code, reason = "each test file uses its part of this")]

pub mod directory;
pub mod hostile;
#[cfg(unix)]
pub mod tls;

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

pub const BINARY: &str = env!("CARGO_BIN_EXE_zoolet");

/// A server that has announced itself.
pub struct Running {
    process: Child,
    out: BufReader<ChildStdout>,
    /// The addresses it has announced.
    pub addrs: Vec<String>,
    /// Those of them that speak TLS alone.
    pub tls_addrs: Vec<String>,
    /// The URLs of the admin server and of the metrics.
    pub admin: Option<String>,
    pub metrics: Option<String>,
    /// What it says that it has loaded.
    pub loaded: String,
}

impl Running {
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// With environment variables. Those of this process that change what a server logs are not passed on.
    pub fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut process = Command::new(BINARY)
            .env_remove("RUST_LOG")
            .env_remove("NOTIFY_SOCKET")
            .envs(environment.iter().copied())
            .arg("serve")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let announced = announced(&mut out);
        let mut server = Self {
            process,
            out,
            addrs: Vec::new(),
            tls_addrs: Vec::new(),
            admin: None,
            metrics: None,
            loaded: String::new(),
        };
        match announced {
            Ok((listed, loaded)) => {
                server.loaded = loaded;
                listed.into_iter().for_each(|place| server.note_place(&place));
            }
            Err(ready) => panic!("printed {ready:?} and {:?}", server.stop("KILL")),
        }
        server
    }

    /// Notes one of the places of the line that announces it.
    fn note_place(&mut self, place: &str) {
        let list = |addrs: &str| addrs.split(',').map(str::to_owned).collect();
        if let Some(url) = place.strip_prefix("admin server at ") {
            self.admin = Some(url.to_owned());
        } else if let Some(url) = place.strip_prefix("metrics at ") {
            self.metrics = Some(url.to_owned());
        } else if let Some(addrs) = place.strip_suffix(" by TLS") {
            self.tls_addrs = list(addrs);
        } else {
            self.addrs = list(place);
        }
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its answer to a four-letter word.
    pub fn word(&self, word: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(word.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Sends a signal.
    pub fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    /// Sends a signal and waits for the exit: the code, and the rest of stdout and stderr.
    pub fn stop(mut self, signal: &str) -> (Option<i32>, String, String) {
        self.signal(signal);
        let (mut rest, mut log) = (String::new(), String::new());
        self.out.read_to_string(&mut rest).unwrap();
        self.process.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.process.wait().unwrap().code(), rest, log)
    }

    /// Sends a signal and returns how long the exit takes while nobody reads stderr, and then what is in it.
    pub fn stop_unread(mut self, signal: &str) -> (Duration, String) {
        let (pid, since) = (self.process.id().to_string(), Instant::now());
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let (exited, exit) = channel();
        let watchdog = std::thread::spawn(move || {
            if exit.recv_timeout(Duration::from_secs(10)).is_err() {
                let _ = Command::new("kill").args(["-s", "KILL", &pid]).status();
            }
        });
        self.out.read_to_string(&mut String::new()).unwrap();
        let took = since.elapsed();
        exited.send(()).unwrap();
        watchdog.join().unwrap();
        let mut log = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (took, log)
    }

    /// A connection on which nothing is waited for longer than ten seconds.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addrs[0].as_str()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// What the server sends before it closes a connection on which it has received these bytes.
    pub fn answer_to(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    /// Opens a session on a connection of its own, which is then lost.
    pub fn open_session(&self) {
        self.handshake(0);
    }

    /// Asks for session 7.
    pub fn resume_unknown_session(&self) {
        self.handshake(7);
    }

    /// How many bytes come back to a client that has seen this transaction.
    pub fn seen(&self, zxid: i64) -> usize {
        let mut stream = self.connect();
        let mut request = [0; 48];
        (request[3], request[31]) = (44, 16);
        request[8..16].copy_from_slice(&zxid.to_be_bytes());
        stream.write_all(&request).unwrap();
        stream.read(&mut [0; 40]).unwrap()
    }

    fn handshake(&self, session: u8) {
        let mut stream = self.connect();
        let mut request = [0; 48];
        (request[3], request[27], request[31]) = (44, session, 16);
        stream.write_all(&request).unwrap();
        stream.read_exact(&mut [0; 40]).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // No effect if it has exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads the line with which a server announces itself: where it answers, and what it has loaded. Or what else it prints.
pub fn announced(out: &mut impl BufRead) -> Result<(Vec<String>, String), String> {
    let mut ready = String::new();
    out.read_line(&mut ready).unwrap();
    let announcement = concat!("zoolet ", env!("CARGO_PKG_VERSION"), " answers on ");
    let rest = ready.trim_end().strip_prefix(announcement).ok_or(&ready)?;
    let (addrs, loaded) = rest.split_once("; ").unwrap_or((rest, ""));
    Ok((addrs.split(", ").map(str::to_owned).collect(), loaded.to_owned()))
}

/// The one line with which `zoolet serve` rejects the arguments.
pub fn error_of(arguments: &[&str]) -> String {
    let mut lines = errors_of(arguments);
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

/// The lines with which `zoolet serve` rejects the arguments.
pub fn errors_of(arguments: &[&str]) -> Vec<String> {
    let output = assert_cmd::Command::new(BINARY).arg("serve").args(arguments).assert().code(2).stdout("");
    let message = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    message.lines().map(str::to_owned).collect()
}

/// A file with this text.
pub fn config(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}
