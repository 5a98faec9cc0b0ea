//! Writes the archive in `rocm-sdk-devel`: a whole ROCm, in which files of other packages are links
//! to them. `rocm_sdk._devel` unpacks it.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::Path;

use python_packaging::wheel::{Content, Spool, Stored};
use rocmrpm_base::events::{Event, Step};
use rocmrpm_base::style::count;
use serde_json::json;

use super::layout::{SdkPackage, layout};
use super::packages::{Packages, relative};
use super::{Request, SdkError};

const FOLDER: &str = "_rocm_sdk_devel";

/// Writes the archive into the spool.
pub(super) fn archive(
    packages: &Packages,
    request: Request<'_>,
    spool: &mut Spool,
    folder: &Path,
) -> Result<Stored, SdkError> {
    let file = tempfile::tempfile_in(folder)?;
    let mut tar = tar::Builder::new(io::BufWriter::with_capacity(1 << 20, file));
    let mut archive =
        Archive { tar: &mut tar, epoch: request.source_date_epoch, names: BTreeSet::new() };
    archive.file("__init__.py", 0, false, &mut io::empty())?;
    for (key, entries) in &packages.contents {
        match key.part {
            // Their packages have lists of their own, or their own folder.
            SdkPackage::Device | SdkPackage::Profiler => {}
            SdkPackage::Devel => {
                for (path, entry) in entries {
                    match &entry.content {
                        Content::File(stored) | Content::Script(stored, _) => {
                            let mut content = spool.reader(*stored, 0);
                            archive.file(path, stored.size, entry.executable, &mut content)?;
                        }
                        Content::Text(text) => {
                            archive.file(
                                path,
                                text.len() as u64,
                                entry.executable,
                                &mut &text[..],
                            )?;
                        }
                    }
                }
            }
            part => {
                for path in entries.keys() {
                    let to = format!("{}/{path}", packages.folder(part));
                    archive.link(path, &relative(&format!("{FOLDER}/{path}"), &to))?;
                }
            }
        }
    }
    // Links to names in the same folder come after these names.
    let mut omitted = Vec::new();
    for (path, to) in &packages.aliases {
        match archive.has(to) {
            true => archive.link(path, &relative(path, to))?,
            false => omitted.push(path),
        }
    }
    let usual = layout().links.iter().filter(|(path, _)| !path.contains('/'));
    for (path, to) in packages.folders.iter().chain(usual) {
        match archive.has_folder(to) && !archive.has(path) && !archive.has_folder(path) {
            true => archive.link(path, &relative(path, to))?,
            false if packages.folders.contains_key(path) => omitted.push(path),
            false => {}
        }
    }
    if let Some(first) = omitted.first() {
        let links = count(omitted.len(), "link");
        let detail = format!("{links} to files outside of rocm-sdk-devel, such as {first}");
        request.events.event(Event::Step { step: Step::Omitting, detail });
    }
    let mut file = tar.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.flush()?;
    io::Seek::rewind(&mut file)?;
    Ok(spool.append(file, false)?)
}

struct Archive<'a, W: io::Write> {
    tar: &'a mut tar::Builder<W>,
    epoch: i64,
    names: BTreeSet<String>,
}

impl<W: io::Write> Archive<'_, W> {
    fn header(&self, kind: tar::EntryType, size: u64, executable: bool) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(if executable { 0o755 } else { 0o644 });
        header.set_mtime(u64::try_from(self.epoch).unwrap_or(0));
        header
    }

    fn file(
        &mut self,
        path: &str,
        size: u64,
        executable: bool,
        content: &mut dyn io::Read,
    ) -> io::Result<()> {
        let mut header = self.header(tar::EntryType::Regular, size, executable);
        self.names.insert(path.to_owned());
        self.tar.append_data(&mut header, format!("{FOLDER}/{path}"), content)
    }

    fn link(&mut self, path: &str, to: &str) -> io::Result<()> {
        if !self.names.insert(path.to_owned()) {
            return Ok(());
        }
        let mut header = self.header(tar::EntryType::Symlink, 0, true);
        self.tar.append_link(&mut header, format!("{FOLDER}/{path}"), to)
    }

    fn has(&self, path: &str) -> bool {
        self.names.contains(path)
    }

    fn has_folder(&self, path: &str) -> bool {
        let start = format!("{path}/");
        self.names.range(start.clone()..).next().is_some_and(|name| name.starts_with(&start))
    }
}

/// Returns the list of a device package's files for `rocm_sdk._devel`. Source of the format:
/// ROCm/TheRock, build_tools/_therock_utils/py_packaging.py, `_emit_devel_links_manifest`.
pub(super) fn device_links<'a>(
    packages: &Packages,
    version: &str,
    paths: impl Iterator<Item = &'a String>,
) -> String {
    let link = |path: &String| {
        let to = format!("{}/{path}", packages.folder(SdkPackage::Device));
        json!({"relpath": path, "target": relative(&format!("{FOLDER}/{path}"), &to)})
    };
    let links: Vec<_> = paths.map(link).collect();
    format!("{:#}\n", json!({"version": version, "links": links}))
}
