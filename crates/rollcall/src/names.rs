//! Names as they are typed: `web`, `web.0`, `web.0.3`, `shop/web.0.3`.

use std::fmt;

use rollcall_types::{DEFAULT_NAMESPACE, name_problem};

use crate::failure::Failure;

/// A job, one of its instances, or one attempt at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub namespace: String,
    pub job: String,
    pub instance: Option<u32>,
    pub attempt: Option<u64>,
}

impl Name {
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let (namespace, rest) = text.split_once('/').unwrap_or((DEFAULT_NAMESPACE, text));
        let mut parts = rest.split('.');
        let job = parts.next().unwrap_or_default();
        let wrong = |problem: Option<String>| {
            problem.map_or(Ok(()), |problem| Err(Failure::usage(format!("`{}`: {problem}", text.escape_debug()))))
        };
        wrong(name_problem("namespace", namespace))?;
        wrong(name_problem("job", job))?;
        let (instance, attempt) = (parts.next(), parts.next());
        let numbers = "a name is JOB, JOB.INSTANCE or JOB.INSTANCE.ATTEMPT, the last two numbers";
        let bad = || Failure::usage(format!("`{}`: {numbers}", text.escape_debug()));
        if parts.next().is_some() {
            return Err(bad());
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            job: job.to_owned(),
            instance: instance.map(str::parse).transpose().map_err(|_| bad())?,
            attempt: attempt.map(str::parse).transpose().map_err(|_| bad())?,
        })
    }

    /// The condition that its tasks meet.
    pub fn condition(&self) -> String {
        // No name holds a quote, so none needs to be doubled.
        let mut condition = format!("namespace = '{}' and job = '{}'", self.namespace, self.job);
        if let Some(instance) = self.instance {
            condition.push_str(&format!(" and instance = {instance}"));
        }
        if let Some(attempt) = self.attempt {
            condition.push_str(&format!(" and attempt = {attempt}"));
        }
        condition
    }
}

impl fmt::Display for Name {
    /// Ready to be typed again; the default namespace is not printed.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace != DEFAULT_NAMESPACE {
            write!(formatter, "{}/", self.namespace)?;
        }
        formatter.write_str(&self.job)?;
        if let Some(instance) = self.instance {
            write!(formatter, ".{instance}")?;
        }
        if let Some(attempt) = self.attempt {
            write!(formatter, ".{attempt}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn names_are_read_and_printed_alike() {
        let table = [
            ("web", "namespace = 'default' and job = 'web'"),
            ("web.0", "namespace = 'default' and job = 'web' and instance = 0"),
            ("shop/web.2.13", "namespace = 'shop' and job = 'web' and instance = 2 and attempt = 13"),
        ];
        for (text, condition) in table {
            let name = Name::parse(text).expect("is a name");
            assert_eq!((name.to_string().as_str(), name.condition().as_str()), (text, condition));
        }
        assert_eq!(Name::parse("default/web").expect("is a name").to_string(), "web");
    }

    #[test]
    fn what_is_no_name_is_bad_usage() {
        for text in ["", "Web", "web.", "web.x", "web.0.1.2", "/web", "a/b/c", "web'--", "web.-1", "web.0.x"] {
            let failure = Name::parse(text).expect_err(text);
            assert_eq!(failure.exit_code(), 2, "{text}");
        }
    }
}
