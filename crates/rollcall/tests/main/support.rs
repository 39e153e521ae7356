//! Running the binary.

use std::process::{Command, Output, Stdio};

/// What a run of the binary left: exit code, standard output, standard error.
pub type Seen = (i32, String, String);

pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
    command.args(arguments).env_remove("ROLLCALL_SERVER").stdin(Stdio::null());
    command
}

pub fn seen(output: Output) -> Seen {
    let text = |bytes| String::from_utf8(bytes).expect("prints UTF-8");
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

pub fn rollcall(arguments: &[&str]) -> Seen {
    seen(command(arguments).output().expect("the binary starts"))
}
