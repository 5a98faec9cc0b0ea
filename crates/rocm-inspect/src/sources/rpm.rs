//! Walks the members of an RPM. `rpms` reads the format.

use super::members::Members;
use crate::InspectError;
use crate::facts::Subject;
use rocmrpm_base::gpu;
use rocmrpm_rpms::{self as rpms, EntryKind};

/// Adds every file of the package, and the relevant fields of its header.
pub(super) fn walk(members: &mut dyn Members, subject: &mut Subject) -> Result<(), InspectError> {
    let archive = members.archive().to_owned();
    let header = rpms::for_each_file(&archive, |entry, reader| match &entry.kind {
        EntryKind::Regular => members.streamed(&entry.path, entry.size, reader),
        EntryKind::Symlink(target) => members.link(&entry.path, target),
        _ => Ok(()),
    })?;
    // Also has `rpmlib(...)` and `rtld(...)`.
    let libraries = header.requires.iter().filter_map(|name| name.split_once('('));
    let libraries = libraries.filter(|(library, _)| library.contains(".so"));
    subject.contents.requires = Some(libraries.map(|(library, _)| library.to_owned()).collect());
    let targets = header.provides.iter().filter_map(|name| gpu::of_provide(name));
    subject.contents.gpu_provides = Some(targets.map(str::to_owned).collect());
    subject.name = header.nevra();
    subject.debug = header.is_debug();
    subject.package = Some(header.name);
    Ok(())
}
