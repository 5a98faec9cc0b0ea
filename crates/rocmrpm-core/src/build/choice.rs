//! Chooses the builder: the requested one, or the chroot's default. Does not build anything.

use std::path::PathBuf;

use super::{Builder, HostBuilder, MockBuilder, Stage};
use crate::process::find_program;
use crate::sources::Cache;
use crate::stack::Stack;

/// A builder by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuilderName {
    /// In a chroot by mock.
    Mock,
    /// With rpmbuild on this machine.
    Host,
}

/// Options that only mock supports.
#[derive(Default)]
pub struct MockOptions {
    /// The folder of the compiler cache.
    pub ccache: Option<PathBuf>,
    /// The cache with the packages of the last build, which are the only ones to use, and whether
    /// downloads are forbidden.
    pub hermetic: Option<(Cache, bool)>,
}

/// Returns the requested builder, or the chroot's default, and a warning about that choice, if
/// there is one.
pub fn choose_builder<'w>(
    stack: &Stack<'w>,
    asked: Option<BuilderName>,
    until: Stage,
    options: MockOptions,
) -> (Box<dyn Builder + 'w>, Option<String>) {
    let workspace = stack.workspace;
    let usual = if workspace.chroot.is_host() { BuilderName::Host } else { BuilderName::Mock };
    match asked.unwrap_or(usual) {
        BuilderName::Mock
            if asked.is_none() && until <= Stage::Srpm && find_program("mock").is_none() =>
        {
            let note = "mock is not installed, so rpmbuild makes the SRPM on this machine, with this \
                        machine's macros unless the chroot defines them";
            (Box::new(HostBuilder::new(workspace)), Some(note.to_owned()))
        }
        BuilderName::Mock => {
            let mock = MockBuilder::new(workspace);
            let mock = match options.ccache {
                Some(dir) => mock.with_ccache(dir),
                None => mock,
            };
            let mock = match options.hermetic {
                Some((cache, offline)) => mock.hermetic(cache, offline),
                None => mock,
            };
            (Box::new(mock), network_note())
        }
        BuilderName::Host => (Box::new(HostBuilder::new(workspace)), None),
    }
}

/// Returns a warning if mock cannot cut builds off from the network. It does so through
/// systemd-nspawn, which it uses only if systemd is the first process. Source: mock,
/// `mockbuild/config.py`, and `condUnshareNet`.
fn network_note() -> Option<String> {
    let first = fs_err::read("/proc/1/cmdline").ok()?;
    let systemd = first.windows(b"systemd".len()).any(|word| word == b"systemd");
    let note = "systemd is not running, so mock cannot block network access: packages may contain files \
                that a build downloaded";
    (!systemd).then(|| note.to_owned())
}
