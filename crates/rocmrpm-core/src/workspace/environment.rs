//! The Python and the platform of a chroot, as Python packaging describes them.

use python_packaging::environment::{Environment, major_and_minor};

use super::Chroot;
use crate::error::{Error, Kind};
use crate::machine;

impl Chroot {
    /// Returns the environment that wheels for this chroot must work with; for `host`, this machine.
    /// The patch release of a chroot's Python is unknown, so the first one is assumed.
    pub fn environment(&self) -> Result<Environment, Error> {
        let python = if self.is_host() { machine::python_version()? } else { self.python.clone() };
        let glibc = self.symbol_versions.get("GLIBC").and_then(|version| major_and_minor(version));
        Environment::new(&python, self.architecture(), glibc).ok_or_else(|| {
            let message = format!("`{python}` is not a version of Python, such as `3.14`");
            Error::new(Kind::Config, message)
                .with_help(format!("correct `python` in mock-configs/{}.toml", self.name))
        })
    }
}
