//! The stage: what a task's process is before it is the task.
//!
//! A daemon can be killed at any moment, also between the start of a process and the word to the guard. So the process that is started is
//! this program as a stage, which runs nothing of the task until it is told to:
//!
//! ```text
//! daemon   start ──► list with the guard ──► order ───────────────────► answer: end of file, the program runs
//! stage      wait for the order …                   ready ──► exec      or an error number, it does not
//! ```
//!
//! A daemon that dies closes the connection. Before the whole order came, the stage then ends by itself; afterwards the guard knows the group.
//! The number of the process stays the same, so it is listed before it can do anything. The order comes over the connection and not
//! as arguments and environment of the stage, because the environment of a task must not act on a process that may be root's.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A longer order is refused; the kernel refuses programs with much shorter arguments and environments.
const ORDER_BYTES_MAX: usize = 16 << 20;
/// Said by the stage before it becomes the task, so that its own early end is not taken for the task's.
const READY: u8 = b'r';
/// Fields before the words: uid, gid, folder, both logs, and how many words follow.
const FIELDS_BEFORE_WORDS: usize = 6;

/// What the stage becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    /// Whom it runs as; none: whoever it is.
    pub(crate) user: Option<(u32, u32)>,
    /// Where it runs.
    pub(crate) folder: PathBuf,
    /// Where its outputs go; both are there.
    pub(crate) out: PathBuf,
    pub(crate) err: PathBuf,
    /// The program and its arguments.
    pub(crate) words: Vec<OsString>,
    /// Its whole environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl Order {
    /// The length, then fields that end in a zero each.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let (uid, gid) = self.user.unzip();
        let number = |id: Option<u32>| OsString::from(id.map_or_else(String::new, |id| id.to_string()));
        let mut fields = vec![number(uid), number(gid), self.folder.clone().into()];
        fields.extend([self.out.clone().into(), self.err.clone().into(), self.words.len().to_string().into()]);
        fields.extend(self.words.iter().cloned());
        fields.extend(self.environment.iter().flat_map(|(name, value)| [name.clone(), value.clone()]));
        if fields.iter().any(|field| field.as_bytes().contains(&0)) {
            return Err(io::Error::new(ErrorKind::InvalidInput, "a word or the environment holds a zero byte"));
        }
        let mut body: Vec<u8> = Vec::new();
        for field in fields {
            body.extend_from_slice(field.as_bytes());
            body.push(0);
        }
        if body.len() > ORDER_BYTES_MAX {
            let message = format!("the command and its environment have more than {ORDER_BYTES_MAX} bytes");
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        let mut bytes = (body.len() as u64).to_le_bytes().to_vec();
        bytes.append(&mut body);
        Ok(bytes)
    }

    fn decode(body: &[u8]) -> Option<Order> {
        let fields: Vec<&[u8]> = body.strip_suffix(&[0])?.split(|byte| *byte == 0).collect();
        let (first, rest) = fields.split_at_checked(FIELDS_BEFORE_WORDS)?;
        let [uid, gid, folder, out, err, count] = first else { return None };
        let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse::<u32>().ok();
        let (words, environment) = rest.split_at_checked(number(count)? as usize)?;
        let text = |field: &[u8]| OsString::from_vec(field.to_vec());
        let (pairs, []) = environment.as_chunks::<2>() else { return None };
        Some(Order {
            user: number(uid).zip(number(gid)),
            folder: text(folder).into(),
            out: text(out).into(),
            err: text(err).into(),
            words: words.iter().map(|word| text(word)).collect(),
            environment: pairs.iter().map(|[name, value]| (text(name), text(value))).collect(),
        })
    }

    /// Becomes the task; returns only if that is not possible.
    fn follow(&self) -> io::Error {
        let Some((program, arguments)) = self.words.split_first() else {
            return io::Error::from(rustix::io::Errno::INVAL);
        };
        let log = |path: &Path| std::fs::OpenOptions::new().append(true).open(path);
        let (out, err) = match (log(&self.out), log(&self.err)) {
            (Ok(out), Ok(err)) => (out, err),
            (Err(error), _) | (_, Err(error)) => return error,
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        if let Some((uid, gid)) = self.user {
            // The standard library drops all supplementary groups along with the user when we are root.
            command.uid(uid).gid(gid);
        }
        command.exec()
    }
}

/// What a stage process does: reads its order from standard input and becomes the task. Returns when there is no order, because the daemon is
/// gone.
///
/// # Errors
/// When it cannot become the task; the daemon was told.
pub fn stage_main() -> io::Result<()> {
    // This copy closes by itself when the program is replaced, by which the daemon sees that it was.
    let mut daemon = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    close_all_but(daemon.as_raw_fd())?;
    let Some(order) = read_order(&mut daemon)? else { return Ok(()) };
    daemon.write_all(&[READY])?;
    let error = order.follow();
    let number = error.raw_os_error().unwrap_or(rustix::io::Errno::INVAL.raw_os_error());
    daemon.write_all(&number.to_le_bytes())?;
    Err(error)
}

/// The order; none when the daemon ended before it had sent the whole of it.
fn read_order(daemon: &mut impl Read) -> io::Result<Option<Order>> {
    let wrong = || io::Error::new(ErrorKind::InvalidData, "not an order for a stage");
    let mut read = |bytes: &mut [u8]| match daemon.read_exact(bytes) {
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => Ok(false),
        other => other.map(|()| true),
    };
    let mut length = [0; 8];
    if !read(&mut length)? {
        return Ok(None);
    }
    let length = usize::try_from(u64::from_le_bytes(length)).ok().filter(|length| *length <= ORDER_BYTES_MAX);
    let mut body = vec![0; length.ok_or_else(wrong)?];
    if !read(&mut body)? {
        return Ok(None);
    }
    Order::decode(&body).map(Some).ok_or_else(wrong)
}

/// Closes what the daemon itself had inherited open, so that nothing of it reaches a task. A stage has opened nothing else yet.
fn close_all_but(kept: i32) -> io::Result<()> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2 && *descriptor != kept) {
        // One of them was the listing itself, and is closed already.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

/// The daemon's end of a stage.
#[derive(Debug)]
pub(crate) struct StageLink(UnixStream);

impl StageLink {
    /// The link, and what becomes the stage's standard input.
    pub(crate) fn new() -> io::Result<(StageLink, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        Ok((StageLink(ours), theirs.into()))
    }

    /// Has the stage become the task. Waits until it has, or says why it could not.
    pub(crate) fn send(mut self, order: &[u8]) -> io::Result<()> {
        self.0.write_all(order)?;
        let mut answer = Vec::new();
        // The stage was killed just now: by a stop, or by somebody else.
        match self.0.read_to_end(&mut answer) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => return Err(error),
            _ => {}
        }
        match answer.split_first() {
            Some((&READY, [])) => Ok(()),
            Some((&READY, number)) => Err(number.try_into().map_or_else(
                |_| io::Error::other("the stage before the task gave no right answer"),
                |number| io::Error::from_raw_os_error(i32::from_le_bytes(number)),
            )),
            _ => Err(io::Error::other("the stage before the task ended early")),
        }
    }
}

/// A name or value for an order.
pub(crate) fn os(text: &str) -> OsString {
    OsStr::new(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Order, os, read_order};

    #[test]
    fn an_order_comes_whole_or_not_at_all() {
        let order = Order {
            user: Some((65534, 65533)),
            folder: "/a b".into(),
            out: "/out".into(),
            err: "/err".into(),
            words: vec![os("sh"), os(""), os("x\ny")],
            environment: vec![(os("A"), os("")), (os("B"), os("c=d"))],
        };
        let bytes = order.encode().expect("can be sent");
        assert_eq!(read_order(&mut bytes.as_slice()).expect("is read"), Some(order.clone()));
        for cut in 0..bytes.len() {
            assert_eq!(read_order(&mut &bytes[..cut]).expect("is no error"), None, "{cut} bytes came");
        }
        let nobody = Order { user: None, environment: Vec::new(), ..order.clone() };
        let bytes = nobody.encode().expect("can be sent");
        assert_eq!(read_order(&mut bytes.as_slice()).expect("is read"), Some(nobody));
        let zero = Order { words: vec![os("a\0b")], ..order };
        assert!(zero.encode().is_err());
    }

    #[test]
    fn what_is_no_order_is_refused() {
        let with_length = |body: &[u8]| [&(body.len() as u64).to_le_bytes(), body].concat();
        let table = [
            vec![0xff; 8],
            with_length(b""),
            with_length(b"\0"),
            with_length(b"1\x001\0/\0/o\0/e\x002\0sh\0"),
            with_length(b"1\x001\0/\0/o\0/e\x001\0sh\0A\0"),
            with_length(b"1\x001\0/\0/o\0/e\x001\0sh"),
        ];
        for bytes in table {
            assert!(read_order(&mut bytes.as_slice()).is_err(), "{bytes:?}");
        }
    }
}
