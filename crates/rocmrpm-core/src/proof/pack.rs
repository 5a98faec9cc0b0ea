//! Creates RPMs for a component before it is built: rpmbuild packs the locked wheels using the
//! preamble of the rendered spec, so that rpm itself generates provides and requirements. It caches
//! the headers without the payload. It does not check whether requirements are met.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::preamble::{ROOT, packing};
use super::unpack::{self, SITE};
use crate::build::{HostBuilder, Job, Results, Stage};
use crate::closure::lock::Lock;
use crate::closure::{Graph, LockedFile, LockedOrigin, makes_python, name_of};
use crate::digest::Sha256;
use crate::error::{Error, IoError, Kind};
use crate::events::{Event, Events, WorkPhase};
use crate::names::ComponentName;
use crate::rpms::write_headers;
use crate::sources::{Fetcher, normalized};
use crate::spec::{self, History, Rendered};
use crate::stack::Stack;
use crate::workspace::{Component, Pin, Source};

/// Increase when the same inputs give a different result.
const VERSION: u32 = 2;

/// The basis of an RPM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// The component was built.
    Built,
    /// The locked wheels that the component packages.
    Wheels,
    /// Upstream's wheel for a component that is built from source.
    OtherWheels,
    /// The spec only; the files are unknown.
    Spec,
}

/// The RPMs of one component.
#[derive(Debug, Clone)]
pub struct Packed {
    /// The name of the component.
    pub component: ComponentName,
    /// The basis of the RPMs.
    pub basis: Basis,
    /// The files, sorted. Those that were not built have no payload.
    pub rpms: Vec<PathBuf>,
    /// Whether the RPMs were packed by this run.
    pub fresh: bool,
}

/// Packs the components of a stack.
pub(super) struct Packer<'a> {
    stack: &'a Stack<'a>,
    fetcher: &'a Fetcher<'a>,
    events: &'a dyn Events,
    history: History,
    builder: HostBuilder<'a>,
    /// The identity of this machine from [`HostBuilder::packer`].
    identity: String,
    /// The locked wheels, by normalized distribution name.
    wheels: BTreeMap<String, LockedFile>,
    /// The requirements of distributions without a wheel, if known.
    graph: Option<&'a Graph>,
}

impl<'a> Packer<'a> {
    pub(super) fn new(
        stack: &'a Stack<'a>,
        graph: Option<&'a Graph>,
        fetcher: &'a Fetcher<'a>,
        events: &'a dyn Events,
    ) -> Result<Self, Error> {
        let workspace = stack.workspace;
        let mut builder = HostBuilder::new(workspace);
        if !workspace.chroot.is_host() {
            builder = builder.as_chroot(&workspace.chroot);
        }
        fetcher.cache().prune("proof")?;
        let lock = Lock::read(&workspace.closure_lock())?;
        let wheels = lock.into_iter().flat_map(|lock| lock.packages).filter_map(|locked| {
            match locked.origin {
                LockedOrigin::Index { wheel: Some(wheel), .. } => Some((locked.name, wheel)),
                _ => None,
            }
        });
        Ok(Self {
            stack,
            fetcher,
            events,
            history: History::read(workspace)?,
            identity: builder.packer()?,
            builder,
            wheels: wheels.collect(),
            graph,
        })
    }

    /// Returns a component's RPMs: built ones if they match this spec, otherwise packed ones.
    pub(super) fn component(&self, component: &Component) -> Result<Packed, Error> {
        let rendered = spec::render(self.stack, component, &self.history)?;
        let name = component.name.clone();
        let results = Results::of(&self.stack.workspace.build_dir_of(&name), Stage::Rpm, &name);
        let digest = rendered.digest.to_string();
        if let Some((record, rpms)) = results.accepted()?
            && record.inputs.get("spec") == Some(digest.as_str())
        {
            return Ok(Packed { component: name, basis: Basis::Built, rpms, fresh: false });
        }
        let contents = self.contents(component)?;
        let text = packing(&rendered.text);
        let mut recipe = format!("proof {VERSION}\n{}\n{text}\n", self.identity);
        for Contents { file, sha256, metadata, .. } in &contents.list {
            recipe += &format!(
                "{file} {}\n{metadata}",
                sha256.map(|d| d.to_string()).unwrap_or_default()
            );
        }
        let key = Sha256::of_bytes(&recipe).to_string();
        let folder = self.fetcher.cache().dir().join("proof").join(&key);
        let _lock = self.fetcher.cache().lock(&format!("proof {key}"))?;
        let fresh = !folder.is_dir();
        if fresh {
            let rendered = Rendered { text, ..rendered };
            self.pack(component, &rendered, &contents.list, &folder)?;
        } else {
            self.fetcher.cache().touch(&folder).map_err(IoError::doing("use packed RPMs"))?;
        }
        let names = crate::files::names_in(&folder).map_err(IoError::doing("read packed RPMs"))?;
        let rpms = names.into_iter().map(|name| folder.join(name)).collect();
        Ok(Packed { component: name, basis: contents.basis, rpms, fresh })
    }

    /// Returns the expected contents of a component's packages.
    fn contents(&self, component: &Component) -> Result<All, Error> {
        let pin = self.stack.workspace.pin(component);
        if component.generated.is_none() {
            let python = makes_python(component)?;
            let list = python
                .then(|| self.stated(&name_of(self.stack.workspace, component), &pin.version));
            return Ok(All { basis: Basis::Spec, list: list.into_iter().collect() });
        }
        let mut all = All { basis: Basis::Wheels, list: Vec::new() };
        for (_, pin) in pin.all_sources() {
            let (basis, contents) = match &pin.source {
                Source::Wheel { file, sha256: Some(sha256) } => {
                    (Basis::Wheels, Contents::of(pin, file, *sha256))
                }
                Source::Sdist { project, .. } => match self.wheels.get(&normalized(project)) {
                    Some(LockedFile { name, sha256, .. }) => {
                        let source = Source::Wheel { file: name.clone(), sha256: Some(*sha256) };
                        let pin = Pin::new(pin.component.clone(), pin.version.clone(), source);
                        (Basis::OtherWheels, Contents::of(&pin, name, *sha256))
                    }
                    None => (Basis::Spec, self.stated(&normalized(project), &pin.version)),
                },
                _ => continue,
            };
            all.basis = all.basis.max(basis);
            all.list.push(contents);
        }
        Ok(all)
    }

    /// Returns a distribution that consists only of METADATA.
    fn stated(&self, name: &str, version: &str) -> Contents {
        let mut metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        let edges = self.graph.into_iter().flat_map(|graph| &graph.edges);
        let mut requires: Vec<&str> =
            edges.filter(|edge| edge.from == name).map(|edge| edge.text.as_str()).collect();
        requires.sort_unstable();
        requires.dedup();
        requires.iter().for_each(|text| metadata += &format!("Requires-Dist: {text}\n"));
        let file = format!("{}-{version}.dist-info", name.replace('-', "_"));
        Contents { pin: None, file, sha256: None, metadata }
    }

    fn pack(
        &self,
        component: &Component,
        spec: &Rendered,
        contents: &[Contents],
        to: &Path,
    ) -> Result<(), Error> {
        let action = || IoError::doing(format!("pack `{}`", component.name));
        let scratch = self.fetcher.cache().scratch()?;
        let folder = |name: &str| scratch.path().join(name);
        let job = Job {
            component,
            gpu_targets: self.stack.gpu_targets(component),
            spec,
            sources: folder("sources"),
            work: folder("work"),
            logs: folder("logs"),
            timeout: None,
            jobs: 1,
            repository: PathBuf::new(),
            required: Vec::new(),
            enter: None,
            events: self.events,
        };
        let root = job.sources.join(ROOT);
        for dir in [&root, &job.work, &job.logs] {
            fs_err::create_dir_all(dir).map_err(action())?;
        }
        let private = spec.text.contains("\n%global site ");
        for Contents { pin, file, metadata, .. } in contents {
            match pin {
                Some(pin) => {
                    let fetched = self.fetcher.obtain(pin)?;
                    let what = IoError::doing(format!("unpack the wheel `{file}`"));
                    unpack::wheel(&fetched.path, &root, private).map_err(what)?;
                }
                None => {
                    let info = root.join(SITE).join(file);
                    fs_err::create_dir_all(&info).map_err(action())?;
                    fs_err::write(info.join("METADATA"), metadata).map_err(action())?;
                }
            }
        }
        fs_err::write(job.sources.join(&spec.file_name), &spec.text).map_err(action())?;
        let detail = spec.file_name.clone();
        self.events.event(Event::Phase {
            component: component.name.clone(),
            phase: WorkPhase::Packing,
            detail,
        });
        let rpms = self.builder.pack(&job)?;
        self.fetcher.leave(&component.name);
        let done = folder("done");
        fs_err::create_dir_all(&done).map_err(action())?;
        for rpm in &rpms {
            write_headers(rpm, &done.join(rpm.file_name().unwrap_or_default()))?;
        }
        if rpms.is_empty() {
            let message = format!("the spec of `{}` produces no packages", component.name);
            return Err(Error::new(Kind::Config, message).with_help("add a `%files` section"));
        }
        fs_err::create_dir_all(to.parent().unwrap_or(to)).map_err(action())?;
        fs_err::rename(&done, to).map_err(action())?;
        Ok(())
    }
}

/// The contents of a component's packages.
struct All {
    basis: Basis,
    list: Vec<Contents>,
}

/// One distribution in a package: a wheel, or only METADATA.
struct Contents {
    pin: Option<Pin>,
    file: String,
    sha256: Option<Sha256>,
    metadata: String,
}

impl Contents {
    fn of(pin: &Pin, file: &str, sha256: Sha256) -> Self {
        let pin = Pin { sources: BTreeMap::new(), ..pin.clone() };
        Self {
            pin: Some(pin),
            file: file.to_owned(),
            sha256: Some(sha256),
            metadata: String::new(),
        }
    }
}
