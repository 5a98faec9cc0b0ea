//! Drafts the package of a project from a wheel that upstream published, for projects without a
//! source distribution.

use std::collections::BTreeSet;

use super::license::{self, License};
use super::{Draft, component_toml, head, license_lines, tag};
use crate::closure::generate::facts::WheelFacts;
use crate::closure::generate::imports::Import;
use crate::closure::generate::member::{LINKS, check, files, saved};
use crate::closure::generate::terms;
use crate::closure::generate::text::{literal, url, wrapped};
use crate::closure::package_name::{package, stem};
use crate::closure::{About, LockedFile, metadata};
use crate::error::{Error, IoError, Kind};
use crate::names::normalized;
use crate::sources::{Fetcher, ProjectFile};
use crate::text::visible;
use crate::wheel::{FileName, metadata_in, name_and_version, required_names};
use crate::workspace::pin::{Pin, Source};

/// Returns the wheel of a project for a version of Python, such as `3.14`, and an architecture in
/// rpm's spelling. Without a version, returns that of the newest final release.
pub fn pick(
    project: &str,
    version: Option<&str>,
    (python, arch): (&str, &str),
    fetcher: &Fetcher<'_>,
) -> Result<(String, ProjectFile), Error> {
    let wanted = version.map(str::parse::<pep440_rs::Version>).transpose().ok().flatten();
    let files = fetcher.projects(&[project])?.concat();
    let named =
        files.into_iter().filter_map(|file| Some((FileName::parse(&file.name).ok()?, file)));
    let of_version = named.filter(|(name, file)| match (version, &wanted) {
        (None, _) => !name.version.any_prerelease() && !file.yanked,
        (Some(_), wanted) => Some(&name.version) == wanted.as_ref(),
    });
    let fitting = of_version.filter_map(|(name, file)| {
        let rank = name.tags.iter().filter_map(|tag| rank(tag, python, arch)).max()?;
        Some((name.version, rank, file))
    });
    let best = fitting.max_by(|a, b| (&a.0, a.1, &a.2.name).cmp(&(&b.0, b.1, &b.2.name)));
    best.map(|(version, _, file)| (version.to_string(), file)).ok_or_else(|| {
        let of = version.map(|version| format!(" {version}")).unwrap_or_default();
        let message =
            format!("the index has no wheel of `{project}`{of} for Python {python} on {arch}");
        Error::new(Kind::Config, message)
            .with_help("choose another version, or package its source with `--git` or `--url`")
    })
}

/// Returns how well a tag fits, or `None` if the wheel does not work there.
fn rank(tag: &str, python: &str, arch: &str) -> Option<u8> {
    let [interpreter, abi, platform] = tag.splitn(3, '-').collect::<Vec<_>>()[..] else {
        return None;
    };
    let minor = |text: &str| text.parse::<u32>().ok();
    let own = minor(python.strip_prefix("3.")?)?;
    let linux = platform.contains("linux") && !platform.contains("musl");
    if platform != "any" && !(linux && platform.ends_with(&format!("_{arch}"))) {
        return None;
    }
    let exact = interpreter == format!("cp3{own}");
    let older = interpreter.strip_prefix("cp3").and_then(minor).is_some_and(|built| built <= own);
    match abi {
        "none" if interpreter == "py3" || interpreter.starts_with("py2") || exact => Some(3),
        "abi3" if older => Some(1),
        abi if exact && abi == interpreter => Some(2),
        _ => None,
    }
}

/// What a wheel says about itself.
struct Facts {
    distribution: String,
    about: About,
    license: License,
    /// What is bundled in it, in the syntax of `Provides:`.
    bundled: BTreeSet<String>,
    /// Whether it requires no other distribution.
    alone: bool,
    wheel: WheelFacts,
}

pub(super) fn draft(pin: &Pin, arch: &str, fetcher: &Fetcher<'_>) -> Result<Draft, Error> {
    let facts = facts(pin, fetcher)?;
    let any = matches!(&pin.source, Source::Wheel { file, .. } if file.ends_with("-none-any.whl"));
    let mut warnings = Vec::new();
    let name = normalized(pin.component.as_str());
    let template = template(&name, &facts, (!any).then_some(arch), &mut warnings);
    let file_name = format!("python-{}.spec.tera", stem(&name));
    Ok(Draft {
        file_name,
        template,
        component: component_toml(false),
        warnings,
        ..Draft::default()
    })
}

fn facts(pin: &Pin, fetcher: &Fetcher<'_>) -> Result<Facts, Error> {
    let fetched = fetcher.obtain(pin)?;
    let file = fs_err::File::open(&fetched.path).map_err(IoError::doing("read a wheel"))?;
    let wrong = |reason: String| {
        let message = format!("cannot read {}: {}", fetched.file_name, visible(&reason));
        Error::new(Kind::Config, message)
    };
    let stated = metadata_in(file).map_err(wrong)?;
    let (distribution, version) = name_and_version(&stated).map_err(wrong)?;
    let about = metadata::about(&stated);
    let locked = LockedFile {
        name: fetched.file_name.clone(),
        sha256: fetched.sha256,
        size: Some(fetched.size),
        metadata: None,
    };
    let (wheel, traces) = WheelFacts::of(&distribution, &version, &locked, fetcher)?;
    let mut license = license::decide(about.license.as_deref(), &[]);
    let mut bundled = BTreeSet::new();
    if let Some(expression) = license.expression.take() {
        let all = terms::of(&terms::Wheel {
            name: &distribution,
            version: &version,
            license: &expression,
            contents: &wheel.contents,
            traces: &traces,
            decided: None,
        });
        match all {
            Ok(terms) => {
                license.expression = Some(terms.license);
                bundled = terms.bundled;
            }
            Err(reason) => {
                let problem = format!("the license of what the wheel bundles is unknown: {reason}");
                license.problem = Some(problem);
            }
        }
    }
    let alone = required_names(&stated).is_ok_and(|names| names.is_empty());
    Ok(Facts { distribution, about, license, bundled, alone, wheel })
}

/// The definitions of a package with compiled files.
const GLOBALS: &str = "\
# The libraries stay as upstream linked them, and are not for others to link to.
%global __provides_exclude_from ^%{python3_sitearch}/.*\\\\.so.*$
%global debug_package %{nil}
%global __strip /usr/bin/true
";

/// Returns the template; `arch` is the architecture of a wheel that does not work on any.
fn template(name: &str, facts: &Facts, arch: Option<&str>, warnings: &mut Vec<String>) -> String {
    let Facts { about, wheel: WheelFacts { contents, names_licenses, .. }, .. } = facts;
    let package = package(name);
    let missing = format!("Python module {name}");
    let license = license_lines(&facts.license, warnings);
    let home = url(about.home.as_deref());
    let spec_name = format!("python-{}", stem(name));
    let header = head(&spec_name, &about.summary, &license, home.as_deref(), &missing);
    let (first, rest) = header.split_once('\n').unwrap_or((&header, ""));
    let globals = if arch.is_some() { GLOBALS } else { "" };
    let mut out = format!("{first}\n{globals}{rest}");
    out += &match arch {
        Some(arch) => tag("ExclusiveArch", arch),
        None => tag("BuildArch", "noarch"),
    };
    for required in ["pyproject-rpm-macros", "python3-devel", "python3-pip"] {
        out += &tag("BuildRequires", required);
    }
    let described = if about.summary.is_empty() { missing } else { literal(&about.summary) };
    let described = wrapped(&format!("{}.", described.trim_end_matches('.')));
    let built = "The files are those of the wheel that upstream published; this package is not\n\
                 built from source.";
    out += &format!("\n%global _description %{{expand:\n{described}\n\n{built}}}\n");
    out += "\n%description %_description\n";
    out += &format!("\n%package -n {package}\nSummary:        %{{summary}}\n");
    facts.bundled.iter().for_each(|text| out += &tag("Provides", text));
    out += &format!("\n%description -n {package} %_description\n");
    out += "\n%prep\n%setup -q -c -T\n\n%build\nmkdir -p %{_pyproject_wheeldir}\n\
            cp -p %{SOURCE0} %{_pyproject_wheeldir}\n\n%install\n%pyproject_install\n";
    if contents.copies {
        out += LINKS;
    }
    let licenses = if *names_licenses { "-l " } else { "" };
    out += &format!("%pyproject_save_files {licenses}{}\n", saved(Some(contents)));
    let import = if facts.alone {
        Import::Needs { build_requires: Vec::new(), components: BTreeSet::new() }
    } else {
        Import::Unavailable("the build root has only the requirements of the build".into())
    };
    out += &check(&facts.distribution, &import, Some(contents));
    out += &format!("\n%files -n {package} -f %{{pyproject_files}}\n");
    out += &files(contents);
    out + "\n%changelog\n<{ changelog }>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_wheels_of_a_platform() {
        for (tag, fits) in [
            ("py3-none-any", true),
            ("py2.py3-none-any", true),
            ("cp314-cp314-manylinux_2_28_x86_64", true),
            ("cp39-abi3-manylinux2014_x86_64", true),
            ("py3-none-manylinux_2_31_x86_64", true),
            ("cp315-abi3-manylinux2014_x86_64", false),
            ("cp313-cp313-manylinux_2_28_x86_64", false),
            ("cp314-cp314t-manylinux_2_28_x86_64", false),
            ("cp314-cp314-musllinux_1_2_x86_64", false),
            ("cp314-cp314-manylinux_2_28_aarch64", false),
            ("cp314-cp314-win_amd64", false),
        ] {
            assert_eq!(rank(tag, "3.14", "x86_64").is_some(), fits, "{tag}");
        }
    }
}
