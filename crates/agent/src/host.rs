//! What this machine is.

use std::path::{Path, PathBuf};

/// The facts that placement needs of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// The agent's name.
    pub name: String,
    /// What tasks may use in all, in whole thousandths of a cpu.
    pub cpus: u32,
    /// What tasks may use in all, in bytes.
    pub memory: u64,
}

const CGROUPS: &str = "/sys/fs/cgroup";

impl HostFacts {
    /// Reads them from the kernel: the machine's, or less when a control group around us allows less. Blocks on /proc.
    ///
    /// # Errors
    /// When the kernel does not tell the memory.
    pub fn read(name: &str) -> std::io::Result<Self> {
        let text = std::fs::read_to_string("/proc/meminfo")?;
        let total = memory_total(&text).ok_or_else(|| std::io::Error::other("no MemTotal in /proc/meminfo"))?;
        // The affinity of this process counts here, and on most systems the quota too.
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let processors = u32::try_from(processors).unwrap_or(u32::MAX / 1000).saturating_mul(1000);
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let (mut cpus, mut memory) = (processors, total);
        for folder in group_folders(&groups) {
            let read = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
            let limit = read("memory.max").or_else(|| read("memory.limit_in_bytes"));
            memory = limit.and_then(|text| text.trim().parse().ok()).map_or(memory, |limit: u64| memory.min(limit));
            cpus = read("cpu.max").and_then(|text| cpu_quota(&text)).map_or(cpus, |quota| cpus.min(quota));
        }
        Ok(Self { name: name.to_owned(), cpus, memory })
    }
}

/// The bytes of the line `MemTotal: 1024 kB`.
fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The thousandths of a cpu in `quota period` of version 2; none when it is `max`.
fn cpu_quota(cpu_max: &str) -> Option<u32> {
    let (quota, period) = cpu_max.trim().split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    let thousandths = quota.checked_mul(1000)?.checked_div(period)?;
    u32::try_from(thousandths).ok().map(|thousandths| thousandths.max(1))
}

/// Our control group and all around it, of version 2 and of the memory controller of version 1.
fn group_folders(groups: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let root = match controllers {
            "" => PathBuf::from(CGROUPS),
            controllers if controllers.split(',').any(|name| name == "memory") => Path::new(CGROUPS).join("memory"),
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        folders.extend(path.ancestors().map(|way| root.join(way)));
    }
    folders
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{HostFacts, cpu_quota, group_folders, memory_total};

    #[test]
    fn the_kernels_texts_are_read() {
        assert_eq!(memory_total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(memory_total("MemFree: 1 kB\n"), None);
        assert_eq!(cpu_quota("150000 100000\n"), Some(1500));
        assert_eq!(cpu_quota("max 100000\n"), None);
        assert_eq!(cpu_quota("5 0"), None);
        let folders = group_folders("12:cpu,memory:/a\n3:pids:/x\n0::/b/c\n");
        let expected = [
            "/sys/fs/cgroup/memory/a",
            "/sys/fs/cgroup/memory/",
            "/sys/fs/cgroup/b/c",
            "/sys/fs/cgroup/b",
            "/sys/fs/cgroup/",
        ];
        assert_eq!(folders, expected.map(PathBuf::from));
    }

    #[test]
    fn this_machine_has_cpus_and_memory() {
        let facts = HostFacts::read("n1").expect("proc is mounted");
        assert!(facts.cpus > 0 && facts.memory > 1 << 20, "{facts:?}");
    }
}
