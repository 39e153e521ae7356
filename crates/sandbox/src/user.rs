//! Users of this machine, from `/etc/passwd`.

use std::path::{Path, PathBuf};

use thiserror::Error;

const PASSWD: &str = "/etc/passwd";
/// A larger user file is refused: it is not one.
const PASSWD_BYTES_MAX: u64 = 16 << 20;

/// A user that processes can run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The login name, or the number when there is none.
    pub name: String,
    /// The user number.
    pub uid: u32,
    /// The number of its primary group. A task has no other group.
    pub gid: u32,
}

/// Why a name is no user.
#[derive(Debug, Error)]
pub enum UserError {
    /// No line for it. Users of a directory service are not looked up.
    #[error("no user `{name}` in {PASSWD}")]
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// The user file could not be read.
    #[error("cannot read {PASSWD}")]
    Unreadable(#[source] std::io::Error),
}

impl User {
    /// The user that this process runs as.
    pub fn current() -> Self {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let found = read_passwd().ok().and_then(|text| parse(&text, |user| user.uid == uid));
        let name = found.map_or_else(|| uid.to_string(), |user| user.name);
        Self { name, uid, gid }
    }

    /// The user of this name.
    ///
    /// # Errors
    /// When there is no such user, or the user file cannot be read.
    pub fn named(name: &str) -> Result<Self, UserError> {
        let text = read_passwd().map_err(UserError::Unreadable)?;
        parse(&text, |user| user.name == name).ok_or_else(|| UserError::Unknown { name: name.to_owned() })
    }

    /// Whether this is root.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// The first folder on the way to `path`, or `path` itself, that this user may not enter or read, by its mode alone.
    pub(crate) fn blocked_at(&self, path: &Path, needed: Access) -> std::io::Result<Option<PathBuf>> {
        use std::os::unix::fs::MetadataExt;
        if self.is_root() {
            return Ok(None);
        }
        let path = path.canonicalize()?;
        let mut ways: Vec<&Path> = path.ancestors().collect();
        ways.reverse();
        for way in ways {
            let metadata = way.metadata()?;
            let wanted = if way == path { needed as u32 } else { Access::Enter as u32 };
            let shift = match (metadata.uid() == self.uid, metadata.gid() == self.gid) {
                (true, _) => 6,
                (false, true) => 3,
                (false, false) => 0,
            };
            if metadata.mode() >> shift & wanted != wanted {
                return Ok(Some(way.to_owned()));
            }
        }
        Ok(None)
    }
}

/// What a user needs of the end of a path, as the bits of a mode.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access {
    /// To pass through a folder.
    Enter = 0o1,
    /// To run a program.
    Run = 0o5,
}

fn read_passwd() -> std::io::Result<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(PASSWD)?.take(PASSWD_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The first user that is meant; lines that are not of the form `name:x:uid:gid:…` are passed over.
fn parse(text: &str, meant: impl Fn(&User) -> bool) -> Option<User> {
    let user = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(User { name, uid, gid })
    };
    text.lines().filter_map(user).find(meant)
}

#[cfg(test)]
mod tests {
    use super::{User, parse};

    #[test]
    fn users_are_found_and_odd_lines_passed_over() {
        let text = "\n# comment\nroot:x:0:0:root:/root:/bin/sh\nbad:x:y:z\nnobody:x:65534:65533::/:/none\n+::::::\n";
        let find = |name: &str| parse(text, |user| user.name == name);
        assert_eq!(find("nobody"), Some(User { name: "nobody".into(), uid: 65534, gid: 65533 }));
        assert_eq!(find("bad"), None);
        assert_eq!(find(""), None);
    }

    #[test]
    fn this_process_has_a_user() {
        let user = User::current();
        assert_eq!(user.is_root(), user.uid == 0);
    }
}
