//! Runs one attack: an attacked server, one that nobody attacks, and a bystander at each.

use std::any::Any;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::bystander::{Bystander, Idle, PERIOD, Waits};
use crate::server::{Server, Settings, is_apache, output, wait_factor};

const MIB: u64 = 1 << 20;

/// How long a server may be busy with an attack before the trial goes on without it.
const LIMIT: Duration = Duration::from_secs(20);
const APACHE_LIMIT: Duration = Duration::from_secs(30);

/// How long a server may take to obey SIGTERM before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A bystander is watched for at least this time before and after an attack.
const MARGIN: Duration = Duration::from_millis(500);

/// What an attacker still holds when the attack is over: connections, mostly.
pub type Held = Box<dyn Any + Send>;

pub struct Bounds {
    /// Of the bystander, above that of the control.
    pub wait: Duration,
    /// Peak of resident memory above that before the attack, in MiB.
    pub peak: u64,
    /// Resident memory after the attack above that before it, in MiB.
    pub end: u64,
}

impl Bounds {
    pub const fn new() -> Self {
        Self { wait: Duration::from_millis(100), peak: 256, end: 256 }
    }
}

pub struct Trial {
    pub name: &'static str,
    pub settings: Settings,
    pub bounds: Bounds,
    /// Writes at the port of clients what the attack needs there.
    pub state: fn(SocketAddr) -> io::Result<()>,
    /// A server that runs already and is attacked once, while others measure.
    pub at: Option<SocketAddr>,
}

/// What one attack did.
struct Outcome {
    attacked: Waits,
    control: Waits,
    lost: usize,
    peak: u64,
    end: u64,
    over: Duration,
    stopped: Option<Duration>,
    control_stopped: Option<Duration>,
    ended: bool,
    error: Option<String>,
}

impl Trial {
    pub const fn new(name: &'static str) -> Self {
        Self { name, settings: Settings::new(), bounds: Bounds::new(), state: |_| Ok(()), at: None }
    }

    /// Prepares a server, attacks it and judges what the others notice. A failure is repeated once.
    pub fn run<T: Send + 'static>(
        &self,
        prepare: impl Fn(SocketAddr) -> io::Result<T>,
        attack: impl Fn(SocketAddr, T) -> io::Result<Held> + Copy + Send + 'static,
    ) {
        zoolet_test_support::limit();
        if let Some(address) = self.at {
            let held = prepare(address).and_then(|prepared| attack(address, prepared));
            return drop(held);
        }
        let mut faults = Vec::new();
        for _ in 0..2 {
            let outcome = self.once(&prepare, attack);
            faults = self.faults(&outcome);
            outcome.record(self.name, &faults);
            if faults.is_empty() || is_apache() {
                return;
            }
        }
        panic!("{}: {}", self.name, faults.join("; "));
    }

    /// Has a server obey SIGTERM while it is attacked. A failure is repeated once.
    pub fn terminate<T>(
        &self,
        prepare: impl Fn(SocketAddr) -> io::Result<T>,
        attack: impl Fn(SocketAddr, T) -> io::Result<Held>,
    ) {
        let mut took = [None; 2];
        for _ in 0..2 {
            let server = Server::start(self.name, self.settings);
            let control = Server::start(&format!("{}-control", self.name), self.settings);
            let prepared = prepare(server.address).expect("what the attack needs");
            let held = attack(server.address, prepared);
            took = [server.terminate(STOP_LIMIT), control.terminate(STOP_LIMIT)];
            drop(held);
            add_line("results.md", &format!("| {} | | | | | | | {} | |", self.name, or_never(took[0])));
            let [attacked, control] = took.map(|took| took.unwrap_or(STOP_LIMIT));
            if attacked <= control + Duration::from_secs(1) || is_apache() {
                return;
            }
        }
        panic!("{}: {took:?} after SIGTERM", self.name);
    }

    fn once<T: Send + 'static>(
        &self,
        prepare: impl Fn(SocketAddr) -> io::Result<T>,
        attack: impl Fn(SocketAddr, T) -> io::Result<Held> + Send + 'static,
    ) -> Outcome {
        let server = Server::start(self.name, self.settings);
        let control_server = Server::start(&format!("{}-control", self.name), self.settings);
        let limit = if is_apache() { APACHE_LIMIT } else { LIMIT };
        (self.state)(server.address).expect("the state");
        let prepared = prepare(server.target).expect("what the attack needs");
        let bystander = Bystander::start(server.address).expect("a bystander");
        wait_until_calm(&server, &bystander, Instant::now() + limit);
        bystander.stop();
        let idle = Idle::start(server.address).expect("idle sessions");
        let bystander = Bystander::start(server.address).expect("a bystander");
        let control = Bystander::start(control_server.address).expect("a bystander");
        thread::sleep(MARGIN);
        server.reset_peak();
        let (before, begun) = (server.resident(), Instant::now());

        // An attacker that waits for longer ends with the server.
        let (done, attack_done) = mpsc::channel();
        let address = server.target;
        thread::spawn(move || done.send(attack(address, prepared)));
        let held = attack_done.recv_timeout(limit);
        wait_until_calm(&server, &bystander, begun + limit);
        let over = begun.elapsed();

        control.finish();
        let (attacked, control, lost) = (bystander.stop(), control.stop(), idle.stop());
        let ended = server.has_ended();
        let (peak, end) = (server.peak().saturating_sub(before), server.resident().saturating_sub(before));
        // What the attacker holds is held until then.
        let (stopped, control_stopped) = (server.terminate(STOP_LIMIT), control_server.terminate(STOP_LIMIT));
        let (peak, end) = (peak / MIB, end / MIB);
        let error = match held {
            Ok(held) => held.err().map(|error| error.to_string()),
            Err(_) => Some(format!("it took longer than {limit:?}")),
        };
        Outcome { attacked, control, lost, peak, end, over, stopped, control_stopped, ended, error }
    }

    fn faults(&self, outcome: &Outcome) -> Vec<String> {
        let Outcome { attacked, control, .. } = outcome;
        let mut faults = Vec::new();
        let mut refuse = |wrong: bool, text: String| {
            if wrong {
                faults.push(text);
            }
        };
        refuse(outcome.ended, "the server ended".to_owned());
        let wait = self.bounds.wait * wait_factor() + control.longest;
        refuse(attacked.longest > wait, format!("a wait of {:?}, of {wait:?}", attacked.longest));
        let lost = outcome.lost + usize::from(attacked.lost);
        refuse(lost > 0, format!("{lost} lost sessions"));
        refuse(outcome.peak > self.bounds.peak, format!("{} MiB, of {}", outcome.peak, self.bounds.peak));
        refuse(outcome.end > self.bounds.end, format!("{} MiB kept, of {}", outcome.end, self.bounds.end));
        let stop = Duration::from_secs(1) + outcome.control_stopped.unwrap_or_default();
        refuse(
            outcome.stopped.is_none_or(|took| took > stop),
            format!("{:?} after SIGTERM", outcome.stopped),
        );
        faults
    }
}

/// Waits until a server answers a bystander in time and uses little of a processor, or has ended.
fn wait_until_calm(server: &Server, bystander: &Bystander, deadline: Instant) {
    const EXPECTED: usize = (MARGIN.as_millis() / PERIOD.as_millis()) as usize;
    loop {
        let (used, done) = (server.cpu_time(), bystander.operations());
        thread::sleep(MARGIN);
        let busy = server.cpu_time().saturating_sub(used) > MARGIN * 2 / 5;
        let late = bystander.operations() - done < EXPECTED / 2;
        if !busy && !late || server.has_ended() || Instant::now() > deadline {
            return;
        }
    }
}

impl Outcome {
    /// Adds a row to the table of results.
    fn record(&self, name: &str, faults: &[String]) {
        let Self { attacked, control, .. } = self;
        let lost = self.lost + usize::from(attacked.lost);
        let stopped = if self.ended { "ended".to_owned() } else { or_never(self.stopped) };
        let row = format!(
            "| {name} | {:.1} s | {} / {} | {} / {} | {} / {} | {} / {} MB | {lost} | {stopped} | {} |",
            self.over.as_secs_f64(),
            attacked.operations,
            control.operations,
            millis(attacked.p99),
            millis(control.p99),
            millis(attacked.longest),
            millis(control.longest),
            self.peak,
            self.end,
            faults.join("; "),
        );
        add_line("results.md", &row);
        if let Some(error) = &self.error {
            add_line("notes.txt", &format!("{name}: the attacker's end: {error}"));
        }
    }
}

fn add_line(file: &str, line: &str) {
    let file = File::options().create(true).append(true).open(output().join(file));
    writeln!(file.expect("a file"), "{line}").expect("a line");
}

fn or_never(took: Option<Duration>) -> String {
    took.map_or("never".to_owned(), millis)
}

fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
