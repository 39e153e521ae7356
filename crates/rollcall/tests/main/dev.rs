//! A real `rollcall dev` with its own folder and port.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Seen, command, seen};

/// Long enough for anything that works; only a failing test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// A reader of lines that nobody takes waits.
const LINES_WAITING_MAX: usize = 1024;

/// A folder that the tasks' user can pass through.
pub fn folder() -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("is ours");
    folder
}

/// A running `rollcall dev`. It is killed when dropped, and its tasks with it.
pub struct Dev {
    child: Child,
    pub address: String,
    folder: PathBuf,
}

impl Dev {
    /// Starts on a free port with its data in `folder`, and waits until it is ready.
    pub fn start(folder: &Path) -> Dev {
        Dev::start_as(folder, &mut dev(folder))
    }

    fn start_as(folder: &Path, dev: &mut std::process::Command) -> Dev {
        let mut child = dev.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary starts");
        let lines = lines(child.stdout.take().expect("is a pipe"));
        let Ok(ready) = lines.recv_timeout(PATIENCE) else {
            let mut told = String::new();
            child.stderr.take().expect("is a pipe").read_to_string(&mut told).expect("is text");
            panic!("dev did not become ready: {told}");
        };
        let ready: Value = serde_json::from_str(&ready).expect("says in JSON where it is");
        assert_eq!(ready["pid"], child.id());
        let address = ready["address"].as_str().expect("has an address").to_owned();
        Dev { child, address, folder: folder.to_owned() }
    }

    /// The same with nothing of what was there.
    pub fn start_fresh(folder: &Path) -> Dev {
        Dev::start_as(folder, dev(folder).arg("--fresh"))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs the binary against this server, in its folder.
    pub fn rollcall(&self, arguments: &[&str]) -> Seen {
        seen(self.command(arguments).output().expect("the binary starts"))
    }

    pub fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = command(arguments);
        command.env("ROLLCALL_SERVER", &self.address).current_dir(&self.folder);
        command
    }

    /// Writes a job file and runs it.
    pub fn run(&self, job: &str, more: &[&str]) -> Seen {
        std::fs::write(self.folder.join("job.toml"), job).expect("is written");
        self.rollcall(&[&["run", "job.toml"], more].concat())
    }

    /// The tasks that meet a condition.
    pub fn tasks(&self, condition: &str) -> Vec<Value> {
        let (code, out, err) = self.rollcall(&["tasks", "--where", condition, "--output", "json"]);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str(&out).expect("is JSON")
    }

    /// One request as it is written here, with the right host if it names none; gives the status and the body.
    pub fn ask(&self, head: &str, body: &str) -> (u16, Vec<u8>) {
        self.try_ask(head, body).expect("the server answers")
    }

    /// The same of a server that may die.
    pub fn try_ask(&self, head: &str, body: &str) -> std::io::Result<(u16, Vec<u8>)> {
        let host =
            if head.to_lowercase().contains("\nhost:") { String::new() } else { format!("host: {}\r\n", self.address) };
        // Version 1.0, so that the body comes as it is and ends with the connection.
        let mut lines = head.lines();
        let (first, rest) = (lines.next().expect("has a request line"), lines.collect::<Vec<_>>().join("\r\n"));
        let rest = if rest.is_empty() { rest } else { format!("{rest}\r\n") };
        let length = body.len();
        let request = format!("{first} HTTP/1.0\r\n{host}{rest}content-length: {length}\r\n\r\n{body}");
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let end = answer.windows(4).position(|end| end == b"\r\n\r\n");
        let end = end.ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let status = std::str::from_utf8(&answer[9..12]).ok().and_then(|status| status.parse().ok());
        Ok((status.expect("has a status"), answer.split_off(end + 4)))
    }

    /// As Ctrl-C does.
    pub fn interrupt(self) -> ExitStatus {
        self.end(Signal::INT)
    }

    /// As others ask a process to end.
    pub fn terminate(self) -> ExitStatus {
        self.end(Signal::TERM)
    }

    fn end(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.child.wait().expect("is our child")
    }

    /// Ctrl-C, and once it has said what it does, again; gives the exit code and what it said.
    pub fn interrupt_twice(mut self) -> (Option<i32>, String) {
        self.signal(Signal::INT);
        let mut err = BufReader::new(self.child.stderr.take().expect("is a pipe"));
        let mut told = String::new();
        err.read_line(&mut told).expect("is text");
        self.signal(Signal::INT);
        err.read_to_string(&mut told).expect("is text");
        (self.child.wait().expect("is our child").code(), told)
    }

    /// What it wrote to standard error, when it has ended.
    pub fn told(mut self) -> String {
        self.signal(Signal::INT);
        let mut told = String::new();
        self.child.stderr.take().expect("is a pipe").read_to_string(&mut told).expect("is text");
        told
    }

    /// As nothing survives.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).expect("is a process");
        kill_process(pid, signal).expect("runs and is ours");
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It has ended already in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `rollcall dev` on a free port, not yet started.
pub fn dev(folder: &Path) -> std::process::Command {
    let mut dev = command(&["dev", "--port", "0", "--output", "json", "--data"]);
    dev.arg(folder.join("data"));
    dev
}

/// The lines of a process as they come.
pub fn lines(out: ChildStdout) -> Receiver<String> {
    let (sender, lines) = sync_channel(LINES_WAITING_MAX);
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// The first line that is wanted.
pub fn line_with(lines: &Receiver<String>, wanted: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let line = lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        let line = line.unwrap_or_else(|_| panic!("no line with {wanted:?} came"));
        if line.contains(wanted) {
            return line;
        }
    }
}

/// Waits until a process is gone. It is none of our children, so its end is seen by its descriptor alone.
pub fn wait_until_gone(pid: u32) {
    let Some(pid) = Pid::from_raw(pid as i32) else { return };
    let Ok(process) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else { return };
    let mut polled = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    let patience = rustix::event::Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let ready = rustix::event::poll(&mut polled, Some(&patience)).expect("a process can be waited for");
    assert_eq!(ready, 1, "process {pid:?} still runs");
}
