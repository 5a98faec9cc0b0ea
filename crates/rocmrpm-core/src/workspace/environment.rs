//! The Python and the platform of a chroot, as Python packaging describes them.

use python_packaging::environment::{Environment, major_and_minor};

use super::Chroot;
use crate::error::{Error, Kind};
use crate::machine;

impl Chroot {
    /// Returns what wheels for this chroot must run on; for the host, this machine. The patch release
    /// of a chroot's Python is unknown: its first one stands for all.
    pub fn environment(&self) -> Result<Environment, Error> {
        let (python, arch) = if self.is_host() {
            (machine::python_version()?, std::env::consts::ARCH)
        } else {
            (self.python.clone(), self.arch.as_str())
        };
        let glibc = self.symbol_versions.get("GLIBC").and_then(|version| major_and_minor(version));
        Environment::new(&python, arch, glibc).ok_or_else(|| {
            let message = format!("`{python}` is not the version of a Python, such as `3.14`");
            Error::new(Kind::Config, message)
                .with_help(format!("correct `python` in mock-configs/{}.toml", self.name))
        })
    }
}
