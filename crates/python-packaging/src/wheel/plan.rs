//! Plans a wheel from a payload before anything is written: its members, name and tags. It does not
//! store the members.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::archive::{Content, MAX_MEMBERS, Member, python_shebang};
use super::bundle::{Bundled, bundle};
use super::device::{Device, with_extras};
use super::layout::WheelDestination;
use super::linkage::{self, Elf, Load};
use super::metadata::{self, Metadata};
use super::payload::{Node, Payload, Spool, Stored, Target};
use super::provenance::Relinked;
use super::relink::relink;
use super::requirements::{self, Rewritten};
use super::rocm_sdk::{self, Linking, Outcome, Refusal};
use super::tags::Evidence;
use super::{Pins, Request, Rocm, RocmWheel, WheelError, provenance, required_by, sbom};
use rocmrpm_base::events::Event;
use rocmrpm_base::process;
use rocmrpm_base::text::visible;

/// Upper bound on the text files of a dist-info folder, which are read as a whole.
const TEXT_LIMIT: u64 = 16 << 20;
/// Files that installers write, or that describe the RPM rather than the wheel.
const OWN_FILES: [&str; 6] =
    ["INSTALLER", "RECORD", "RECORD.jws", "RECORD.p7s", "REQUESTED", "direct_url.json"];

/// The error and the help for the metadata folder of an old installer.
pub(super) const EGG_INFO: &str =
    "egg-info metadata, which describes a distribution without a wheel";
pub(super) const EGG_INFO_HELP: &str = "install with %pyproject_wheel and %pyproject_install, which create a \
     dist-info, or list the egg-info in `leave-out` under `[wheel]` in component.toml";

/// The help for files of two Pythons or architectures.
const FOREIGN: &str =
    "list files that the wheel should omit in `leave-out` under `[wheel]` in component.toml";

#[derive(Debug)]
pub(super) struct Plan {
    pub file_name: String,
    /// The tags as in the file name.
    pub compressed_tags: String,
    pub dist_info: String,
    pub members: BTreeMap<String, Member>,
    pub distribution: String,
    pub version: String,
    pub tags: BTreeSet<String>,
    pub requires_python: Option<String>,
    pub metadata: String,
    /// The requirement on ROCm's Python packages, with the code for all targets.
    pub sdk: Option<String>,
    /// The file names of the RPMs.
    pub rpms: Vec<String>,
    /// The text of RPM files that rocmrpm regenerates, by member.
    pub replaced: BTreeMap<String, String>,
    /// The members that differ from the RPMs' files in their search paths.
    pub relinked: BTreeMap<String, Relinked>,
    /// The members that are from a package of ROCm, each with the file name of that package.
    pub bundled: BTreeMap<String, String>,
    /// The libraries of AMD's wheels that importing it loads, as [`rocm_sdk::preloads`] reads them.
    pub preloads: BTreeSet<String>,
}

/// Returns the names of the dist-info folders that have METADATA.
pub(super) fn dist_infos(payload: &Payload) -> BTreeSet<String> {
    payload
        .nodes
        .keys()
        .filter_map(|path| dist_info(payload.place(path)))
        .map(str::to_owned)
        .collect()
}

/// Returns the dist-info folder whose METADATA the file is.
pub(super) fn dist_info(place: WheelDestination<'_>) -> Option<&str> {
    let WheelDestination::Library(library) = place else { return None };
    let folder = library.path.strip_suffix("/METADATA")?;
    (folder.ends_with(".dist-info") && !folder.contains('/')).then_some(folder)
}

/// Returns the first file that belongs in a wheel.
pub(super) fn wanted_path(payload: &Payload) -> Option<&str> {
    payload
        .nodes
        .keys()
        .map(String::as_str)
        .find(|path| payload.place(path) != WheelDestination::Dropped)
}

/// Refuses Python modules without metadata that names their distribution.
pub(super) fn refuse_modules(payload: &Payload) -> Result<(), WheelError> {
    let modules = || {
        payload.nodes.keys().filter_map(|path| match payload.place(path) {
            WheelDestination::Library(library) => {
                Some((path, library.path.split('/').next().unwrap_or_default()))
            }
            _ => None,
        })
    };
    let egg = modules().find(|(_, top)| top.ends_with(".egg-info") || top.ends_with(".egg-link"));
    if let Some((path, _)) = egg {
        return Err(WheelError::file(payload.rpm(), path, EGG_INFO).with_help(EGG_INFO_HELP));
    }
    let Some((path, _)) = modules().next() else { return Ok(()) };
    let reason = "no dist-info folder with METADATA names the distribution of this file";
    Err(WheelError::file(payload.rpm(), path, reason).with_help(
        "install with %pyproject_wheel and %pyproject_install, which create a dist-info; if no wheel \
         should contain it, list it in `leave-out` under `[wheel]` in component.toml",
    ))
}

impl Plan {
    /// Plans the wheel of the distribution with this dist-info folder. Other wheels have its GPU
    /// code for `devices`.
    pub fn new(
        payload: &Payload,
        dist_info: &str,
        devices: &[Device],
        request: Request<'_>,
        spool: &mut Spool,
    ) -> Result<Self, WheelError> {
        let text = |name: &str, spool: &Spool| text(payload, &format!("{dist_info}/{name}"), spool);
        let Some((path, original)) = text("METADATA", spool)? else {
            let reason = format!("{dist_info}/METADATA is not a file");
            return Err(WheelError::package(payload.rpm(), reason));
        };
        let wrong = |reason: String| WheelError::file(payload.rpm(), &path, &reason);
        let old = Metadata::parse(&original).map_err(wrong)?;
        agrees(dist_info, &old).map_err(wrong)?;
        let changed = old.with_version(&original, |version| request.label.apply(version));
        let new = Metadata::parse(&changed).map_err(wrong)?;
        let stem = format!("{}-{}", new.normalized.replace('-', "_"), new.version);

        let commands = text("entry_points.txt", spool)?.map(|(_, text)| metadata::commands(&text));
        let mut gathering = Gathering::new(payload, spool, dist_info, &stem, request.python);
        gathering.commands = commands.unwrap_or_default();
        gathering.run()?;
        let Gathering { mut members, origins, mut elfs, mut evidence, commands, .. } = gathering;
        let refused = |refusal| refused(payload, &origins, refusal);
        let mut bundled = Bundled::default();
        if let Rocm::Bundled { wheels } = request.rocm {
            let name = new.normalized.replace('-', "_");
            bundled = bundle(wheels, &name, &mut members, &mut elfs, spool)?.map_err(refused)?;
            for (name, elf) in elfs.iter().filter(|(name, _)| !origins.contains_key(*name)) {
                evidence.elf(elf, name);
            }
        }
        let folders = match request.rocm {
            Rocm::Sdk { options, .. } => {
                options.relink.as_deref().map(|libraries| [rocm_sdk::CORE, libraries])
            }
            Rocm::Bundled { .. } => Some([bundled.core.as_str(), bundled.libraries.as_str()]),
            Rocm::System => None,
        };
        let mut relinked = BTreeMap::new();
        if let Some(folders) = folders {
            relinked =
                relink(&mut members, &mut elfs, &origins, folders, spool).map_err(refused)?;
        }
        let gathering = Gathering {
            commands,
            members,
            origins,
            elfs,
            evidence,
            ..Gathering::new(payload, spool, dist_info, &stem, request.python)
        };
        let loads = linkage::follow(&gathering.elfs);
        let mut required = required_by(&payload.rpms, request.pins)?;
        required.remove(&new.normalized);
        let changed = rewrite(&changed, &required, &request, &stem).map_err(wrong)?;
        let linked = gathering.link(loads.as_deref(), &changed, &request)?;
        let policy = linkage::policy(&gathering.elfs, loads.as_deref());
        let sdk = linked.requirement;
        let own = sdk.as_deref().map(|sdk| match devices {
            [] => sdk.to_owned(),
            _ => rocm_sdk::without_devices(sdk),
        });
        let added =
            requirements::rewrite(&changed, &Pins::new(), own.as_slice(), None).map_err(wrong)?;
        let changed = with_extras(&added.text, &new, devices);

        let backend = text("WHEEL", spool)?.map(|(_, text)| text);
        let stated = backend.as_deref().map(metadata::wheel_tags).unwrap_or_default();
        let tags = gathering
            .evidence
            .tags(&stated, policy)
            .map_err(|reason| WheelError::package(payload.rpm(), reason).with_help(FOREIGN))?;
        let mut members = gathering.members;
        let mut replaced = BTreeMap::new();
        for (name, text) in linked.generated {
            replaced.extend(small(&members, &name, spool)?.map(|old| (name.clone(), old)));
            members.insert(name, Member::text(text));
        }
        let dist_info = format!("{stem}.dist-info");
        let wheel = metadata::wheel_file(tags.pure(), &tags.expanded());
        for (name, text, old) in
            [("METADATA", changed.clone(), Some(original)), ("WHEEL", wheel, backend)]
        {
            let name = format!("{dist_info}/{name}");
            replaced.extend(old.map(|old| (name.clone(), old)));
            members.insert(name, Member::text(text));
        }
        for (name, text) in
            origin_files(payload, &new, &changed, &request, (&relinked, &bundled.packages))?
        {
            if members.insert(format!("{dist_info}/{name}"), Member::text(text)).is_some() {
                let reason = format!("its dist-info already has {name}, which rocmrpm writes");
                return Err(WheelError::package(payload.rpm(), reason));
            }
        }
        Ok(Self {
            replaced,
            relinked,
            bundled: bundled.members,
            preloads: preloads(&members, spool)?,
            rpms: payload.rpms.iter().map(|rpm| provenance::file_name(rpm)).collect(),
            file_name: format!("{stem}-{}.whl", tags.compressed()),
            compressed_tags: tags.compressed(),
            sdk,
            dist_info,
            members,
            distribution: new.name,
            version: new.version.to_string(),
            tags: tags.expanded(),
            requires_python: new.requires_python,
            metadata: changed,
        })
    }
}

/// Pins the requirements in METADATA and adds those of the RPMs, `required`. Warns about those of
/// upstream that the stack does not meet.
pub(super) fn rewrite(
    metadata: &str,
    required: &BTreeSet<String>,
    request: &Request<'_>,
    stem: &str,
) -> Result<String, String> {
    // Packages are built for the architecture of the build machine.
    let environment =
        request.python.and_then(|python| requirements::markers(python, std::env::consts::ARCH));
    let environment = environment.as_ref();
    let lacking = requirements::lacking(metadata, required, request.pins, environment)?;
    let metadata = requirements::without(metadata, request.not_required)?;
    let Rewritten { text, unmet } =
        requirements::rewrite(&metadata, request.pins, &lacking, environment)?;
    for (wanted, version) in unmet {
        let wanted = visible(&wanted);
        request.events.event(Event::Warning(format!(
            "{stem}: upstream requires `{wanted}`, but the stack has {version}, which rocmrpm pins"
        )));
    }
    Ok(text)
}

/// Returns the SBOM and the provenance by file name; nothing if the origin is not known.
pub(super) fn origin_files(
    payload: &Payload,
    metadata: &Metadata,
    text: &str,
    request: &Request<'_>,
    (relinked, bundled): (&BTreeMap<String, Relinked>, &[RocmWheel]),
) -> Result<Vec<(&'static str, String)>, WheelError> {
    let Some(origin) = request.origin else { return Ok(Vec::new()) };
    let rpms = provenance::rpms(payload)?;
    let sbom =
        sbom::text(metadata, text, (&rpms, bundled), &origin.sources, request.source_date_epoch);
    Ok(vec![
        (sbom::NAME, sbom),
        (provenance::NAME, provenance::text(&rpms, origin, relinked, bundled)?),
    ])
}

/// Returns the libraries of AMD's wheels that the packages of a wheel load.
fn preloads(members: &BTreeMap<String, Member>, spool: &Spool) -> io::Result<BTreeSet<String>> {
    let mut preloads = BTreeSet::new();
    for name in members.keys().filter(|name| rocm_sdk::is_init(name)) {
        preloads
            .extend(small(members, name, spool)?.iter().flat_map(|text| rocm_sdk::listed(text)));
    }
    Ok(preloads)
}

/// Reads a text file below site-packages and returns it with its path in the payload.
fn text(
    payload: &Payload,
    name: &str,
    spool: &Spool,
) -> Result<Option<(String, String)>, WheelError> {
    let mut found =
        payload.nodes.iter().filter_map(|(path, node)| match (payload.place(path), node) {
            (WheelDestination::Library(library), Node::File(stored)) if library.path == name => {
                Some((path, stored))
            }
            _ => None,
        });
    let Some((path, stored)) = found.next() else { return Ok(None) };
    let wrong = |reason: &str| WheelError::file(payload.rpm(), path, reason);
    if let Some((other, _)) = found.find(|(_, other)| other.sha256 != stored.sha256) {
        return Err(wrong(&format!(
            "it differs from {other}, which has the same place in the wheel"
        )));
    }
    let bytes = spool.small(*stored, TEXT_LIMIT)?.ok_or_else(|| wrong("larger than 16 MiB"))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("the text is not UTF-8"))?;
    Ok(Some((path.clone(), text)))
}

/// Returns the text of a small member.
fn small(
    members: &BTreeMap<String, Member>,
    name: &str,
    spool: &Spool,
) -> io::Result<Option<String>> {
    let bytes = match members.get(name).map(|member| &member.content) {
        Some(Content::File(stored)) => spool.small(*stored, TEXT_LIMIT)?,
        Some(Content::Text(bytes)) => Some(bytes.clone()),
        Some(Content::Script(..)) | None => None,
    };
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Checks that the name of the dist-info folder agrees with METADATA.
fn agrees(dist_info: &str, metadata: &Metadata) -> Result<(), String> {
    let (name, version) = (&metadata.name, &metadata.version);
    let stated = super::name::of_dist_info(dist_info);
    match stated.is_some_and(|stated| stated == (metadata.normalized.clone(), version.clone())) {
        true => Ok(()),
        false => Err(format!("it names {name} {version}, but its folder is {dist_info}")),
    }
}

/// Returns the error for a file that does not support the link mode.
fn refused(payload: &Payload, origins: &BTreeMap<String, String>, refusal: Refusal) -> WheelError {
    match refusal {
        Refusal::File(member, reason, help) => {
            let path = origins.get(&member).unwrap_or(&member);
            WheelError::file(payload.rpm(), path, &reason).with_help(help)
        }
        Refusal::Version(version) => WheelError::RocmVersion(version),
        Refusal::Io(error) => error.into(),
    }
}

pub(super) struct Gathering<'a> {
    payload: &'a Payload,
    spool: &'a Spool,
    old_dist_info: &'a str,
    /// `name-version` of the wheel, which its folders are named after.
    stem: &'a str,
    commands: BTreeSet<String>,
    /// The Python of the chroot, if relevant.
    python: Option<(u32, u32)>,
    pub members: BTreeMap<String, Member>,
    /// The path in the payload of each member.
    origins: BTreeMap<String, String>,
    /// The ELF files among the members.
    elfs: BTreeMap<String, Elf>,
    evidence: Evidence,
    /// Fails if the user interrupted rocmrpm: links can multiply files to a million.
    check_stop: fn() -> Result<(), process::ProcessError>,
}

impl<'a> Gathering<'a> {
    /// Returns an empty plan.
    pub fn new(
        payload: &'a Payload,
        spool: &'a Spool,
        old_dist_info: &'a str,
        stem: &'a str,
        python: Option<(u32, u32)>,
    ) -> Self {
        Self {
            payload,
            spool,
            old_dist_info,
            stem,
            commands: BTreeSet::new(),
            python,
            members: BTreeMap::new(),
            origins: BTreeMap::new(),
            elfs: BTreeMap::new(),
            evidence: Evidence::default(),
            check_stop: process::check_stop,
        }
    }
}

impl Gathering<'_> {
    pub fn run(&mut self) -> Result<(), WheelError> {
        for (path, node) in &self.payload.nodes {
            match node {
                _ if self.payload.place(path) == WheelDestination::Dropped => {}
                Node::File(stored) => self.add(path, path, *stored)?,
                Node::Link(target) => self.add_link(path, target)?,
            }
        }
        for member in self.members.keys() {
            let above = member.match_indices('/').map(|(at, _)| &member[..at]);
            if let Some(file) = above.into_iter().find(|above| self.members.contains_key(*above)) {
                let reason =
                    format!("the wheel would have `{file}` both as a file and as a folder");
                return Err(self.refuse(&self.origins[member], &reason));
            }
        }
        Ok(())
    }

    /// Checks that the files find ROCm's libraries, and returns what else the wheel needs for it.
    fn link(
        &self,
        loads: Option<&[Load]>,
        metadata: &str,
        request: &Request<'_>,
    ) -> Result<Outcome, WheelError> {
        let linking = Linking {
            members: &self.members,
            elfs: &self.elfs,
            loads,
            metadata,
            targets: request.origin.map_or(&[], |origin| &origin.gpu_targets),
            text: &|name| small(&self.members, name, self.spool),
        };
        let refused = |refusal| refused(self.payload, &self.origins, refusal);
        linking.resolve(request.rocm).map_err(refused)
    }

    /// Refuses a file for another Python than the chroot's.
    fn check_python(&self, path: &str, (major, minor): (u32, u32)) -> Result<(), WheelError> {
        let Some(chroot) = self.python.filter(|chroot| *chroot != (major, minor)) else {
            return Ok(());
        };
        let reason = format!(
            "it is installed for Python {major}.{minor}, but the chroot has Python {}.{}",
            chroot.0, chroot.1
        );
        let help = "rebuild the component in this chroot, or correct `python` in mock-configs/";
        Err(self.refuse(path, &reason).with_help(help))
    }

    fn refuse(&self, path: &str, reason: &str) -> WheelError {
        WheelError::file(self.payload.rpm(), path, reason)
    }

    /// Adds copies in place of a link, because a wheel cannot hold links.
    fn add_link(&mut self, path: &str, target: &str) -> Result<(), WheelError> {
        let payload = self.payload;
        match payload.follow(path) {
            Some(Target::File(end, stored)) => self.add(path, &end, stored),
            Some(Target::Folder(folder)) if !path.starts_with(&format!("{folder}/")) => {
                for (inner, node) in payload.below(&folder) {
                    let copy = format!("{path}{}", &inner[folder.len()..]);
                    match (node, payload.follow(inner)) {
                        _ if payload.place(&copy) == WheelDestination::Dropped => {}
                        (_, Some(Target::File(end, stored))) => self.add(&copy, &end, stored)?,
                        _ => {
                            return Err(
                                self.refuse(inner, "a link inside a folder that is itself a link target")
                            );
                        }
                    }
                }
                Ok(())
            }
            Some(Target::Folder(_)) => {
                Err(self.refuse(path, &format!("a link to a folder above it: {target}")))
            }
            None => Err(self.refuse(path, &format!("a link that leaves the package: {target}")).with_help(
                "install the target in the same package, so that the wheel can contain a copy of it",
            )),
        }
    }

    /// Adds the file at `path` with the content of the file at `end`.
    fn add(&mut self, path: &str, end: &str, stored: Stored) -> Result<(), WheelError> {
        (self.check_stop)()?;
        let mut content = Content::File(stored);
        let name = match self.payload.place(path) {
            WheelDestination::Dropped => return Ok(()),
            WheelDestination::Refused(reason, help) => {
                return Err(self.refuse(path, reason).with_help(help));
            }
            WheelDestination::Data(rest) => format!("{}.data/{rest}", self.stem),
            WheelDestination::Command(name) => {
                // Includes a second name of such a command, as `pip3` is for `pip`.
                let made = |path| matches!(self.payload.place(path), WheelDestination::Command(name) if self.commands.contains(name));
                if made(path) || made(end) {
                    return Ok(());
                }
                if let Some(first_line) = python_shebang(self.spool, &stored)? {
                    content = Content::Script(stored, first_line);
                }
                format!("{}.data/scripts/{name}", self.stem)
            }
            WheelDestination::Library(library) => {
                if let Some(python) = library.python {
                    self.check_python(path, python)?;
                    self.evidence.folder(python, path);
                }
                match self.library_member(path, library.path)? {
                    Some(name) => name,
                    None => return Ok(()),
                }
            }
        };
        let linkage = self.spool.linkage(&stored)?;
        if let Some(elf) = linkage.and_then(|(facts, sound)| Elf::new(facts, sound)) {
            self.evidence.elf(&elf, path);
            self.elfs.insert(name.clone(), elf);
        }
        if let Some(Member { content: Content::File(other) | Content::Script(other, _), .. }) =
            self.members.get(&name)
            && other.sha256 != stored.sha256
        {
            let reason = format!(
                "it differs from {}, which has the same place in the wheel",
                self.origins[&name]
            );
            return Err(self.refuse(path, &reason));
        }
        if self.members.len() >= MAX_MEMBERS {
            return Err(self.refuse(path, "links expand to more than a million files"));
        }
        self.members.insert(name.clone(), Member { content, executable: stored.executable });
        self.origins.insert(name, path.to_owned());
        Ok(())
    }

    /// Returns the name of a library file in the wheel; `None` for a file that rocmrpm regenerates.
    fn library_member(&self, path: &str, below: &str) -> Result<Option<String>, WheelError> {
        let (top, rest) = below.split_once('/').unwrap_or((below, ""));
        if top.ends_with(".egg-info") || top.ends_with(".egg-link") {
            return Err(self.refuse(path, EGG_INFO).with_help(EGG_INFO_HELP));
        }
        if top.ends_with(".data") && !rest.is_empty() {
            return Err(
                self.refuse(path, "installers would treat this folder as the wheel's own data")
            );
        }
        if !top.ends_with(".dist-info") || rest.is_empty() {
            return Ok(Some(below.to_owned()));
        }
        if top != self.old_dist_info {
            let reason = format!("a second dist-info folder next to {}", self.old_dist_info);
            return Err(self.refuse(path, &reason));
        }
        let made = OWN_FILES.contains(&rest) || matches!(rest, "METADATA" | "WHEEL");
        Ok((!made).then(|| format!("{}.dist-info/{rest}", self.stem)))
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
