//! `rollcall help`: a verb, or the job file.

use clap::CommandFactory;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output::print;

/// The fields of the job file, as this release takes them.
const JOB_FILE: &str = include_str!("job_file.txt");

pub fn run(topic: Option<&str>) -> Result<(), Failure> {
    let mut command = Arguments::command();
    match topic {
        None => print(&command.render_help().to_string()),
        Some("job-file") => print(JOB_FILE),
        Some(verb) => match command.find_subcommand_mut(verb) {
            Some(found) => {
                let help = found.clone().bin_name(format!("rollcall {verb}")).render_help();
                print(&help.to_string())
            }
            None => Err(Failure::missing(format!("no help about `{}`; try a verb, or: job-file", verb.escape_debug()))),
        },
    }
}

#[cfg(test)]
mod tests {
    use rollcall_types::JobFile;

    use super::JOB_FILE;

    #[test]
    fn the_job_file_of_the_manual_is_accepted() {
        let job = JobFile::parse(JOB_FILE, "help").expect("the manual is right");
        assert_eq!((job.name.as_str(), job.instances), ("web", 3));
    }
}
