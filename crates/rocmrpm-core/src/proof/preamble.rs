//! Converts a rendered spec into one that packs given files into the same packages. It keeps
//! everything that affects Provides and Requires, and does not build anything.

/// Folder of the files to pack, below the folder of the spec's sources.
pub(super) const ROOT: &str = "root";

/// The sections that end the package descriptions. Source: rpm, build/parseSpec.c, `partList`,
/// without %package, %description and their subsections.
const ENDS: &[&str] = &[
    "%prep",
    "%generate_buildrequires",
    "%conf",
    "%build",
    "%install",
    "%check",
    "%clean",
    "%pre",
    "%preun",
    "%pretrans",
    "%preuntrans",
    "%post",
    "%postun",
    "%posttrans",
    "%postuntrans",
    "%verifyscript",
    "%files",
    "%changelog",
    "%sourcelist",
    "%patchlist",
];

/// Definitions at the top of the spec: disable compressing, stripping and modifying files.
const PREAMBLE: &str = "%global _binary_payload w0.ufdio\n%global __os_install_post %{nil}\n\
                     %global debug_package %{nil}\n%global _build_id_links none\n\
                     %global __check_files %{nil}\n%global _unpackaged_files_terminate_build 0\n";

/// Lines of later sections that affect which packages exist.
const CONDITIONS: &[&str] = &["%if", "%else", "%elif", "%endif"];

/// Returns a spec with the packages of a rendered one. The first package contains all files in
/// [`ROOT`]: `site` in the spec's folder of Python modules, `bin` and `data` below `/usr`.
pub(super) fn packing(rendered: &str) -> String {
    let (mut spec, mut files) = (PREAMBLE.to_owned(), String::new());
    let mut ended = false;
    let python = rendered.lines().any(is_python_files);
    let mut first = true;
    for line in rendered.lines() {
        let word = line.split_whitespace().next().unwrap_or_default();
        ended |= ENDS.contains(&word) || word.contains("trigger");
        if !ended {
            if !is_source(line) {
                spec += &format!("{line}\n");
            }
        } else if word == "%files" {
            files += &format!("{}\n", without_list(line));
            if first && (!python || is_python_files(line)) {
                files += "/usr\n";
                first = false;
            }
        } else if CONDITIONS.iter().any(|condition| word.starts_with(condition)) {
            files += &format!("{line}\n");
        }
    }
    // The generator's name for the folder in the private package.
    let site = if rendered.contains("\n%global site ") {
        "%{site}"
    } else if rendered.lines().any(|line| line.split_whitespace().eq(["BuildArch:", "noarch"])) {
        "%{python3_sitelib}"
    } else {
        "%{python3_sitearch}"
    };
    spec += &format!(
        "\n%install\nmkdir -p %{{buildroot}}{site} %{{buildroot}}%{{_prefix}}\ncd %{{_sourcedir}}/{ROOT}\n\
         [ ! -d site ] || mv site/* %{{buildroot}}{site}\n[ ! -d bin ] || mv bin %{{buildroot}}%{{_bindir}}\n\
         [ ! -d data ] || cp -r data/. %{{buildroot}}%{{_prefix}}\n\n{files}"
    );
    spec
}

fn is_python_files(line: &str) -> bool {
    line.starts_with("%files -n python3-")
}

/// Returns whether a line declares something that only a build needs.
fn is_source(line: &str) -> bool {
    let tag = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let numbered = |stem: &str| {
        tag.strip_prefix(stem)
            .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    line.contains(':') && (numbered("source") || numbered("patch") || tag == "buildrequires")
}

/// Returns a `%files` line without file lists that a build would write.
fn without_list(line: &str) -> String {
    let mut words = line.split_whitespace();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "-f" => drop(words.next()),
            word => kept.push(word),
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = "%global x 1\nName: python-a\nSource0: a.tar.gz\nPatch: a.patch\nBuildRequires: gcc\n\
        BuildArch: noarch\nRequires: b\n%description\nText.\n%package -n python3-a\n%description -n python3-a\n\
        %prep\n%setup\n%install\nmake\n%files\n%if 1\n%files -n python3-a -f %{pyproject_files}\n\
        %license LICENSE\n%endif\n%changelog\n* Mon\n";

    #[test]
    fn keeps_packages_and_removes_build_sections() {
        let spec = packing(SPEC);
        let (head, install) = spec.split_once("\n%install\n").unwrap();
        let head = head.strip_prefix(PREAMBLE).unwrap();
        assert_eq!(
            head,
            "%global x 1\nName: python-a\nBuildArch: noarch\nRequires: b\n%description\nText.\n\
             %package -n python3-a\n%description -n python3-a\n"
        );
        assert!(install.contains("mv site/* %{buildroot}%{python3_sitelib}\n"), "{install}");
        let files = install.split_once("\n\n").unwrap().1;
        assert_eq!(files, "%files\n%if 1\n%files -n python3-a\n/usr\n%endif\n");
    }

    #[test]
    fn puts_files_into_the_first_package_without_python() {
        let spec =
            packing("Name: a\n%description\nx\n%install\n%files\n/usr/bin/a\n%files devel\n");
        assert!(spec.ends_with("\n\n%files\n/usr\n%files devel\n"), "{spec}");
        assert!(spec.contains("mv site/* %{buildroot}%{python3_sitearch}\n"));
    }
}
