//! What the native API shows of each table beside its columns.

use crate::json::{JsonRow, ObjectWriter, Part};
use rollcall_types::{AgentRow, JobRow, SpecRow, Task};

impl JsonRow for Task {
    const EXTRA: &'static [(&'static str, &'static str)] =
        &[("task", "Its name within its namespace, such as `web.0.3`.")];

    fn put_extra(&self, object: &mut ObjectWriter<'_>) {
        let (instance, attempt) = (Part::Number(u64::from(self.instance)), Part::Number(u64::from(self.attempt)));
        object.text("task", &[Part::Text(&self.job), Part::Text("."), instance, Part::Text("."), attempt]);
    }
}

impl JsonRow for JobRow {}

impl JsonRow for SpecRow {}

impl JsonRow for AgentRow {}
