//! Reads the files of all RPMs and gives each its path in ROCm's folder. It does not know packages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use python_packaging::wheel::{Node, Payload, Spool, Stored, Target};
use rocmrpm_base::events::{Event, Step};
use rocmrpm_base::process::check_stop;
use rocmrpm_base::style::count;
use rocmrpm_base::text::covers;
use rocmrpm_rpms::EntryKind;

use super::layout::{Home, SdkPackage, layout};
use super::release::Release;
use super::{Request, SdkError};

/// Documentation, which no package has. Links to license texts may lead to it.
const DOCS: &str = "/usr/share/doc/";

/// The files of all RPMs.
pub(super) struct Tree {
    /// Their files and links, by installed path.
    pub payload: Payload,
    /// The installed path of each file and link, by the path in ROCm's folder.
    pub paths: BTreeMap<String, String>,
    /// The numbers of the RPMs in the payload, by installed path.
    rpms: BTreeMap<String, usize>,
}

/// Files that the packages do not have, although the user may expect them.
#[derive(Default)]
struct Omitted {
    unknown: Vec<String>,
    /// Files for other GPU targets.
    other_targets: Vec<String>,
}

impl Tree {
    /// Reads the RPMs. Files for other GPU targets are left out.
    pub fn read(
        request: Request<'_>,
        release: &Release,
        spool: &mut Spool,
    ) -> Result<Self, SdkError> {
        let left_out = |path: &str| request.leave_out.iter().any(|pattern| covers(pattern, path));
        let for_other = |path: &str| match layout().part(path) {
            (SdkPackage::Device, Some(processor)) => !release.wants(processor),
            _ => false,
        };
        let wanted = |path: &str| match layout().home(path) {
            _ if left_out(path) => false,
            _ if layout().is_license(path) => true,
            Home::Tree(path) => !for_other(&path),
            _ => path.starts_with(DOCS),
        };
        let mut idle: BTreeSet<&String> = request.leave_out.iter().collect();
        let mut payload =
            Payload { rpms: Vec::new(), nodes: BTreeMap::new(), left_out: Vec::new() };
        let (mut rpms, mut omitted) = (BTreeMap::new(), Omitted::default());
        for (rpm, source) in &release.rpms {
            check_stop()?;
            let detail = source.header.name.clone();
            request.events.event(Event::Step { step: Step::Reading, detail });
            let files = rocmrpm_rpms::files(rpm)?.1;
            idle.retain(|pattern| !files.iter().any(|file| covers(pattern, &file.path)));
            let files = files
                .into_iter()
                .filter(|file| file.kind != EntryKind::Directory && !left_out(&file.path));
            for file in files {
                match layout().home(&file.path) {
                    Home::Unknown => omitted.unknown.push(file.path),
                    Home::Tree(path) if for_other(&path) => omitted.other_targets.push(file.path),
                    _ => {}
                }
            }
            if let Some(read) = Payload::read(rpm, spool, wanted)? {
                let number = payload.rpms.len();
                rpms.extend(read.nodes.keys().map(|path| (path.clone(), number)));
                payload.merge(read)?;
            }
        }
        if let Some(pattern) = idle.pop_first() {
            return Err(SdkError::LeavesNothingOut { pattern: pattern.clone() });
        }
        omitted.report(request);
        let paths = paths(&payload)?;
        Ok(Self { payload, paths, rpms })
    }

    /// Returns the RPM with an installed path.
    pub fn rpm(&self, installed: &str) -> &Path {
        let number = self.rpms.get(installed);
        number.and_then(|number| self.payload.rpms.get(*number)).map_or(Path::new(""), |rpm| rpm)
    }

    /// Returns the license texts: names such as `hip/LICENSE.md`, the file of each, and its content.
    pub fn licenses(&self) -> Result<BTreeMap<String, (&str, Stored)>, SdkError> {
        let mut texts = BTreeMap::new();
        for (path, node) in self.payload.nodes.iter().filter(|(path, _)| layout().is_license(path))
        {
            let stored = match node {
                Node::File(stored) => *stored,
                Node::Link(to) => match self.payload.follow(path) {
                    Some(Target::File(_, stored)) => stored,
                    // The folder has texts of its own.
                    Some(Target::Folder(folder)) if layout().is_license(&format!("{folder}/x")) => {
                        continue;
                    }
                    _ => {
                        let (link, target) = (path.clone(), to.clone());
                        return Err(SdkError::LicenseLink { link, target });
                    }
                },
            };
            let name = path.strip_prefix("/usr/share/licenses/").unwrap_or(&path[1..]);
            texts.insert(name.to_owned(), (path.as_str(), stored));
        }
        Ok(texts)
    }
}

impl Omitted {
    fn report(&self, request: Request<'_>) {
        if let Some(first) = self.unknown.first() {
            request.events.event(Event::Warning(format!(
                "no package has these files, which are outside of ROCm's folders: {} in total, such as {first}",
                self.unknown.len()
            )));
        }
        if let Some(first) = self.other_targets.first() {
            let files = count(self.other_targets.len(), "file");
            let detail = format!("{files} for other GPU targets, such as {first}");
            request.events.event(Event::Step { step: Step::Omitting, detail });
        }
    }
}

/// Returns the installed path of each file and link, by the path in ROCm's folder.
fn paths(payload: &Payload) -> Result<BTreeMap<String, String>, SdkError> {
    let mut paths: BTreeMap<String, String> = BTreeMap::new();
    for (path, node) in &payload.nodes {
        let Home::Tree(home) = layout().home(path) else { continue };
        if let Some(other) = paths.get(&home) {
            let same = match (node, &payload.nodes[other]) {
                (Node::File(a), Node::File(b)) => a.sha256 == b.sha256,
                (a, b) => a == b,
            };
            if !same {
                let (one, other) = (other.clone(), path.clone());
                return Err(SdkError::TwoFiles { one, other, path: home });
            }
        }
        paths.insert(home, path.clone());
    }
    Ok(paths)
}
