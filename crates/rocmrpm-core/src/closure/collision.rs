//! Requirements of a closure that cannot all be satisfied, as shown to the user. `explain` finds them.

use pep440_rs::Version;

use crate::error::{Diagnose, Diagnosis, Kind};

/// Requirements on one distribution that cannot all be satisfied.
#[derive(Debug, thiserror::Error)]
#[error("`{component}` has no closure: {}", on.as_ref().map_or("its requirements conflict".to_owned(), ConflictSubject::message))]
pub struct Collision {
    /// The component of the closure.
    pub component: String,
    /// The distribution and the chains that lead to it; `None` if they were not found.
    pub on: Option<ConflictSubject>,
    /// The last lines of uv's output, without passwords.
    pub reported: Vec<String>,
}

/// The distribution whose requirements conflict.
#[derive(Debug)]
pub struct ConflictSubject {
    /// Its normalized name.
    pub name: String,
    /// Why they conflict.
    pub why: ConflictReason,
    /// Chains such as `vllm -> x 1.0 -> torch<2`: those that conflict, or all known ones.
    pub chains: Vec<String>,
}

/// Why requirements on a distribution conflict.
#[derive(Debug, PartialEq, Eq)]
pub enum ConflictReason {
    /// The stack has another version.
    Held(Version),
    /// The index has no version that satisfies a single requirement.
    NoVersion,
    /// The index has a suitable version, but no file for the chroot; this is a file that it has.
    NoFile(String),
    /// No version satisfies both of two requirements.
    Exclude,
    /// The conflicting requirements are unknown.
    Among,
}

impl ConflictSubject {
    fn message(&self) -> String {
        let name = &self.name;
        match &self.why {
            ConflictReason::Held(held) => {
                format!("the stack has {name} {held}, which a requirement excludes")
            }
            ConflictReason::NoVersion => {
                format!("the index has no version of `{name}` that satisfies a requirement")
            }
            ConflictReason::NoFile(file) => format!(
                "`{name}` has no wheel for the chroot's Python and no source distribution, only files such as {file}"
            ),
            ConflictReason::Exclude => format!("two requirements on `{name}` conflict"),
            ConflictReason::Among => {
                format!("the requirements on `{name}` cannot be satisfied together")
            }
        }
    }
}

impl Diagnose for Collision {
    fn diagnosis(&self) -> Diagnosis {
        let mut help = Vec::new();
        if let Some(ConflictSubject { name, why, .. }) = &self.on {
            match why {
                ConflictReason::Held(_) => {
                    help.push(format!(
                        "pin another version of `{name}`, or a version of the component that accepts it"
                    ));
                }
                ConflictReason::NoFile(_) => {
                    help.push(format!(
                        "make `{name}` a component of the stack: `rocmrpm add {name}`"
                    ));
                }
                _ => {}
            }
            help.push(
                "drop a member that you do not need: `[[closure.member]]` with `place = \"dropped\"`".into(),
            );
        }
        if self.reported.iter().any(|line| line.contains("exclude-newer")) {
            help.push(
                "to use a version that was published later, add `not-after = \"DAY\"` and a reason to its \
                 `[[closure.member]]`"
                    .into(),
            );
        }
        Diagnosis::from(Kind::Config)
            .with_help_lines(help)
            .with_help("to change a requirement of the component itself, add an `[[edit]]` to component.toml")
            .with_details(self.on.iter().flat_map(|on| &on.chains).chain(&self.reported))
    }
}
