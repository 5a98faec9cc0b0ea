//! Presents the stack's own distributions to a resolver: each at the single version that the stack
//! has, with its requirements. What others require of them is up to the resolver.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;

use pep440_rs::Version;
use pep508_rs::Requirement;

use super::never::never_reason;
use super::roots::{self, StatedRequirements};
use super::{About, ClosureError, metadata};
use crate::digest::Sha256;
use crate::error::IoError;
use crate::names::ComponentName;
use crate::sources::{Distribution, Fetcher, normalized};
use crate::stack::Stack;
use crate::uv::{StandIn, metadata_wheel};
use crate::wheel::FileName;
use crate::workspace::pin::Source;
use crate::workspace::{Component, Upstreams, Workspace};
use python_packaging::environment::Environment;
use python_packaging::needs::{Need, Needs};

/// A distribution that a component of the stack makes.
#[derive(Debug, Clone)]
pub(crate) struct OwnDistribution {
    pub component: ComponentName,
    /// The version in the pin set.
    pub version: Version,
    /// Its requirements.
    pub needs: Needs,
    /// Its metadata.
    pub about: About,
    /// Whether the requirements and the metadata are known.
    pub known: bool,
}

impl OwnDistribution {
    /// Returns the distribution of a wheel.
    pub fn of_wheel(component: ComponentName, version: Version, needs: Needs) -> Self {
        Self { component, version, needs, about: About::default(), known: true }
    }
}

/// Returns the distributions of a stack by normalized name, except for those of one component and
/// those generated for its closure. With `refresh`, queries the index even for versions that it did
/// not have earlier.
pub(super) fn of_stack(
    stack: &Stack<'_>,
    without: &Component,
    environment: &Environment,
    fetcher: &Fetcher<'_>,
    refresh: bool,
) -> Result<BTreeMap<String, OwnDistribution>, ClosureError> {
    let workspace = stack.workspace;
    let required: BTreeSet<&ComponentName> =
        stack.select(&[without]).into_iter().map(|component| &component.name).collect();
    let mut found: BTreeMap<String, OwnDistribution> = BTreeMap::new();
    let mut open: Vec<(String, Version)> = Vec::new();
    for component in stack.order() {
        if component.name == without.name || is_generated(component) || !makes_python(component)? {
            continue;
        }
        let pin = workspace.pin(component);
        let sdist = matches!(pin.source, Source::Sdist { .. });
        let built = roots::built(workspace, component, fetcher)?;
        // The sdist of a component that is not required may never be needed.
        let stated = match built {
            Some(built) => Some(built),
            None if sdist && required.contains(&component.name) => {
                Some(roots::stated(workspace, component, &Default::default(), fetcher)?)
            }
            None => None,
        };
        let name = stated
            .as_ref()
            .map_or_else(|| name_of(workspace, component), |stated| stated.name.clone());
        let Ok(version) = Version::from_str(&pin.version) else { continue };
        let known = stated.is_some();
        if !known {
            open.push((name.clone(), version.clone()));
        }
        let about = stated
            .iter()
            .filter_map(|stated| stated.metadata.as_deref())
            .map(metadata::about)
            .next();
        let needs = stated.map(|stated| stated.needs).unwrap_or_default();
        let (component, about) = (component.name.clone(), about.unwrap_or_default());
        found.insert(name, OwnDistribution { component, version, needs, about, known });
    }
    let released = released(&open, environment, fetcher, refresh)?;
    for ((name, _), text) in open.iter().zip(released) {
        let (Some(own), Some(text)) = (found.get_mut(name), text) else { continue };
        let StatedRequirements { needs, .. } = StatedRequirements::of(&text, name)?;
        (own.needs, own.about, own.known) = (needs, metadata::about(&text), true);
    }
    let names: BTreeSet<String> = found.keys().cloned().collect();
    found.values_mut().for_each(|own| {
        own.needs.requires.retain_mut(|need| applies_to_own(&workspace.upstreams, need, &names))
    });
    Ok(found)
}

/// Returns whether a requirement applies to the stack's own build as well. Requirements on what
/// an index must not provide, such as NVIDIA's libraries, do not. For the stack's own distributions, the version in the requirement is dropped,
/// because the stack decides it.
fn applies_to_own(upstreams: &Upstreams, need: &mut Need, own: &BTreeSet<String>) -> bool {
    if own.contains(need.name()) {
        need.parsed.version_or_url = None;
        need.text = need.parsed.to_string();
        return true;
    }
    never_reason(upstreams, need.name()).is_none()
}

/// Returns whether a component was generated for a closure, judging by its folder.
fn is_generated(component: &Component) -> bool {
    let above = component.dir.ancestors().skip(1).take(2);
    above.filter_map(Path::file_name).any(|folder| folder == "generated")
}

/// Returns whether a component makes a package of a Python module, judging by its spec template.
pub(crate) fn makes_python(component: &Component) -> Result<bool, ClosureError> {
    let text = fs_err::read_to_string(&component.template)
        .map_err(IoError::doing("read a spec's template"))?;
    let starts = ["%package -n python3-", "%files -n python3-", "Name:           python3-"];
    Ok(text.lines().any(|line| starts.iter().any(|start| line.starts_with(start))))
}

/// Returns the normalized name that a component would have on an index.
pub(crate) fn name_of(workspace: &Workspace, component: &Component) -> String {
    match &workspace.pin(component).source {
        Source::Sdist { project, .. } => normalized(project),
        _ => normalized(component.name.as_str()),
    }
}

/// Returns the METADATA of released versions from the index; `None` for a version without a wheel.
/// Cached, because releases do not change.
fn released(
    wanted: &[(String, Version)],
    environment: &Environment,
    fetcher: &Fetcher<'_>,
    refresh: bool,
) -> Result<Vec<Option<String>>, ClosureError> {
    let recipe = |(name, version): &(String, Version)| {
        format!(
            "metadata of release 1\n{name} {version}\n{} {}\n",
            environment.python(),
            environment.arch()
        )
    };
    let mut texts: Vec<Option<String>> = Vec::with_capacity(wanted.len());
    for one in wanted {
        let text = fetcher.remembered(&recipe(one))?;
        texts.push(text.filter(|text| !(refresh && text.is_empty())));
    }
    let missing: Vec<usize> = (0..wanted.len()).filter(|at| texts[*at].is_none()).collect();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|at| wanted[*at].0.as_str()).collect();
        let mut files: Vec<(usize, Distribution)> = Vec::new();
        for (at, offered) in missing.iter().zip(fetcher.projects(&names)?) {
            let (name, version) = &wanted[*at];
            let mut wheels: Vec<(bool, Distribution)> = offered
                .into_iter()
                .filter_map(|file| {
                    let parsed = FileName::parse(&file.name).ok()?;
                    let fits = parsed.tags.iter().any(|tag| environment.takes(tag));
                    let same = parsed.distribution == *name && parsed.version == *version;
                    let (project, version) = (name.clone(), version.clone());
                    let sha256 = file.sha256.filter(|_| same)?;
                    Some((
                        fits,
                        Distribution { project, version, file: file.name, sha256, metadata: None },
                    ))
                })
                .collect();
            wheels.sort_by(|(fits, a), (other, b)| (other, &a.file).cmp(&(fits, &b.file)));
            files.extend(wheels.into_iter().next().map(|(_, file)| (*at, file)));
        }
        let asked: Vec<Distribution> = files.iter().map(|(_, file)| file.clone()).collect();
        for ((at, _), text) in files.iter().zip(fetcher.metadata(&asked)?) {
            texts[*at] = Some(text);
        }
        for at in missing {
            let text = texts[at].get_or_insert_default();
            fetcher.remember(&recipe(&wanted[at]), text)?;
        }
    }
    Ok(texts.into_iter().map(|text| text.filter(|text| !text.is_empty())).collect())
}

/// Writes an index with only the stack's distributions, as wheels without content.
pub(crate) fn stand_in(
    own: &BTreeMap<String, OwnDistribution>,
    folder: &Path,
) -> std::io::Result<StandIn> {
    let index = StandIn::in_folder(folder);
    for (name, own) in own {
        let file = format!("{}-{}-py3-none-any.whl", name.replace('-', "_"), own.version);
        let bytes = wheel(name, own)?;
        fs_err::write(index.folder(name)?.join(&file), &bytes)?;
        index.page(name, &[(file, Sha256::of_bytes(&bytes))])?;
    }
    Ok(index)
}

/// Returns a wheel that contains only METADATA.
fn wheel(name: &str, own: &OwnDistribution) -> std::io::Result<Vec<u8>> {
    let mut metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {}\n", own.version);
    for extra in &own.needs.extras {
        metadata += &format!("Provides-Extra: {extra}\n");
    }
    for need in &own.needs.requires {
        let Need { parsed, .. } = need;
        let parsed: &Requirement = parsed;
        metadata += &format!("Requires-Dist: {parsed}\n");
    }
    metadata_wheel(&format!("{}-{}", name.replace('-', "_"), own.version), &metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_nvidia_and_keeps_stack_versions() {
        let own = BTreeSet::from(["triton".to_owned()]);
        let text = "Requires-Dist: nvidia-nccl-cu13==2 ; sys_platform == 'linux'\nRequires-Dist: filelock>=3\n\
                    Requires-Dist: triton[x]==3.5.1 ; sys_platform == 'linux'\n";
        let mut needs = roots::needs(text, "torch").unwrap();
        needs.requires.retain_mut(|need| applies_to_own(&Upstreams::default(), need, &own));
        let texts: Vec<&str> = needs.requires.iter().map(|need| need.text.as_str()).collect();
        assert_eq!(texts, ["filelock>=3", "triton[x] ; sys_platform == 'linux'"]);
    }

    #[test]
    fn stand_in_states_requirements() {
        let text = "Provides-Extra: x\nRequires-Dist: b>=1\nRequires-Dist: c ; extra == 'x'\n";
        let own = OwnDistribution {
            component: ComponentName::parse("a").unwrap(),
            version: Version::from_str("1.0.dev3").unwrap(),
            needs: roots::needs(text, "a").unwrap(),
            about: About::default(),
            known: true,
        };
        let bytes = wheel("a-b", &own).unwrap();
        let metadata = crate::wheel::metadata_in(std::io::Cursor::new(bytes)).unwrap();
        let (name, version) = crate::wheel::name_and_version(&metadata).unwrap();
        assert_eq!((name.as_str(), version.to_string().as_str()), ("a-b", "1.0.dev3"));
        assert_eq!(roots::needs(&metadata, "a").unwrap().requires.len(), 2);
    }
}
