//! No process outlives a killed `rollcall dev`, at whatever moment of the start of its tasks it is killed.

use std::path::Path;

use crate::dev::{Dev, folder, line_with, wait_until_gone};

/// The daemon is killed so often, each time when one more of its tasks has begun to run.
const ROUNDS: usize = 24;
const INSTANCES: usize = ROUNDS / 2;

/// All processes that belong to a folder: by where they are, or by what they were started with. The dead do not count.
fn processes_of(folder: &Path) -> Vec<u32> {
    let folder = folder.canonicalize().expect("is there");
    let told = folder.to_str().expect("is text");
    let entries = std::fs::read_dir("/proc").expect("proc is mounted").flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_folder = |pid: &u32| {
        let is_in = std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&folder));
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_in || String::from_utf8_lossy(&line).contains(told)
    };
    processes.filter(of_folder).collect()
}

#[test]
fn a_daemon_killed_while_tasks_start_leaves_no_process() {
    let folder = folder();
    let marker = folder.path().join("here");
    // A child in the same group, so that the group is more than its leader; both carry the folder in their arguments.
    let sleep = format!("exec -a {} sleep 1000", marker.display());
    let job = format!(
        "name = \"starting\"\ninstances = {INSTANCES}\nresources = {{ cpus = 0.001, memory = \"1M\" }}\n\
         command = [\"/bin/bash\", \"-c\", \"({sleep}) & {sleep}\"]\n"
    );
    std::fs::write(folder.path().join("job.toml"), &job).expect("is written");
    for round in 0..ROUNDS {
        let dev = Dev::start_fresh(folder.path());
        let seen = dev.stream("/v1/watch?where=state%3D%27running%27");
        line_with(&seen, "id: ");
        assert_eq!(dev.rollcall(&["run", "--detach", "job.toml"]).0, 0);
        for _ in 0..round % INSTANCES {
            line_with(&seen, "event: c");
        }
        dev.kill();
        drop(dev);
        processes_of(folder.path()).into_iter().for_each(wait_until_gone);
        assert_eq!(processes_of(folder.path()), [0; 0], "killed after {} had started", round % INSTANCES);
    }
}
