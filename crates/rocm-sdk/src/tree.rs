//! Reads the files of all RPMs and gives each its path in ROCm's folder. It does not know packages.

use std::collections::{BTreeMap, BTreeSet};

use python_packaging::wheel::{Node, Payload, Spool, Stored};
use rocmrpm_base::events::Event;
use rocmrpm_base::process::check_stop;
use rocmrpm_base::text::covers;

use super::layout::{Home, Part, layout};
use super::release::Release;
use super::{Request, SdkError};

/// The folder of license texts in RPMs.
const LICENSES: &str = "/usr/share/licenses/";

/// The files of all RPMs.
pub(super) struct Tree {
    /// Their files and links, by installed path.
    pub payload: Payload,
    /// The installed path of each file and link, by the path in ROCm's folder.
    pub paths: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the RPMs. Files for other GPU targets are left out.
    pub fn read(
        request: Request<'_>,
        release: &Release,
        spool: &mut Spool,
    ) -> Result<Self, SdkError> {
        let left_out = |path: &str| request.leave_out.iter().any(|pattern| covers(pattern, path));
        let wanted = |path: &str| match layout().home(path) {
            _ if left_out(path) => false,
            Home::Tree(path) => match layout().part(&path) {
                (Part::Device, Some(processor)) => release.wants(processor),
                _ => true,
            },
            _ => path.starts_with(LICENSES),
        };
        let mut idle: BTreeSet<&String> = request.leave_out.iter().collect();
        let mut payload =
            Payload { rpms: Vec::new(), nodes: BTreeMap::new(), left_out: Vec::new() };
        let mut unknown = Vec::new();
        for (rpm, header, _) in &release.rpms {
            check_stop()?;
            request.events.event(Event::Step { word: "Reading", detail: header.name.clone() });
            let files = rocmrpm_rpms::files(rpm)?.1;
            idle.retain(|pattern| !files.iter().any(|file| covers(pattern, &file.path)));
            let strays = files.iter().filter(|file| {
                let folder = matches!(file.kind, rocmrpm_rpms::EntryKind::Directory);
                !folder && layout().home(&file.path) == Home::Unknown && !left_out(&file.path)
            });
            unknown.extend(strays.map(|file| file.path.clone()));
            if let Some(read) = Payload::read(rpm, spool, wanted)? {
                payload.merge(read)?;
            }
        }
        if let Some(pattern) = idle.pop_first() {
            return Err(SdkError::LeavesNothingOut { pattern: pattern.clone() });
        }
        if let Some(first) = unknown.first() {
            request.events.event(Event::Warning(format!(
                "no package has these files, which are outside of ROCm's folders: {} in total, such as {first}",
                unknown.len()
            )));
        }
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
        Ok(Self { payload, paths })
    }

    /// Returns the license texts by package and file name, such as `hip/LICENSE.md`.
    pub fn licenses(&self) -> impl Iterator<Item = (&str, Stored)> {
        self.payload.nodes.iter().filter_map(|(path, node)| match node {
            Node::File(stored) => Some((path.strip_prefix(LICENSES)?, *stored)),
            Node::Link(_) => None,
        })
    }
}
