//! Placeholder of the room `types`.

mod expand;
mod job_file;
mod nearest;
pub mod units;

pub use expand::{ExpandError, expand};
pub use job_file::{
    COMMAND_WORDS_MAX, Command, DEFAULT_CPUS, DEFAULT_MEMORY_BYTES, DEFAULT_NAMESPACE, ENVIRONMENT_NAMES_MAX,
    INSTANCES_MAX, JOB_FILE_BYTES_MAX, JobFile, JobFileError, JobFileErrors, JobKind, NAME_CHARACTERS_MAX, Resources,
    example_web, name_problem,
};
pub use nearest::nearest;
