//! Checks environment variables that a spec's scripts export. It does not run the scripts.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Spec, finding};
use crate::lint_rules::{DIFFER, HSA_OVERRIDE, UNREAD};
use crate::names::nearest;
use crate::spec::TARGET_VARIABLES;
use crate::spec::sections::Line;

/// Variables that compilers, linkers and build systems read. Sources: their manuals, sections on
/// the environment; HIP's and clang's documentation.
const TOOLS: &[&str] = &[
    "AR",
    "AS",
    "CC",
    "CFLAGS",
    "CPPFLAGS",
    "CXX",
    "CXXFLAGS",
    "FC",
    "FFLAGS",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD",
    "LDFLAGS",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "MAKEFLAGS",
    "MAX_JOBS",
    "NM",
    "PATH",
    "PKG_CONFIG_PATH",
    "PYTHONPATH",
    "RANLIB",
    "SOURCE_DATE_EPOCH",
    "STRIP",
    "TMPDIR",
    "XDG_CACHE_HOME",
    // HIP and ROCm's clang.
    "DEVICE_LIB_PATH",
    "HIPCC_COMPILE_FLAGS_APPEND",
    "HIPCC_LINK_FLAGS_APPEND",
    "HIPCXX",
    "HIPFLAGS",
    "HIP_CLANG_PATH",
    "HIP_DEVICE_LIB_PATH",
    "HIP_PATH",
    "HIP_PLATFORM",
    "ROCM_HOME",
    "ROCM_PATH",
    // CMake, ninja, ccache, Rust, Python's build backends.
    "CCACHE_DIR",
    "CMAKE_ARGS",
    "CMAKE_BUILD_PARALLEL_LEVEL",
    "CMAKE_BUILD_TYPE",
    "CMAKE_GENERATOR",
    "CMAKE_PREFIX_PATH",
    "NINJA_STATUS",
    "RUSTFLAGS",
    "RUSTC_BOOTSTRAP",
    "SKBUILD_CMAKE_ARGS",
    "SETUPTOOLS_SCM_PRETEND_VERSION",
];

/// Prefixes of such variables.
const TOOL_FAMILIES: &[&str] =
    &["CARGO_", "GIT_", "PIP_", "PYTHON", "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_"];

/// Variables that depend on the section and may legitimately differ.
const LOCAL: &[&str] = &["PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR"];

/// Sections in which a build system configures itself.
const CONFIGURING: &[&str] = &["generate_buildrequires", "conf", "build", "install"];

/// One `export NAME=VALUE`.
struct Export {
    name: String,
    value: String,
    line: usize,
}

pub(super) fn check(spec: &Spec<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut values: BTreeMap<String, BTreeMap<&str, (BTreeSet<String>, usize)>> = BTreeMap::new();
    for script in &spec.sections.scripts {
        let section = script.section.as_str();
        for Export { name, value, line } in exports(&script.lines) {
            if section == "build" && is_unread(&name, spec) {
                findings.push(unread(&name, line, spec));
            }
            // A value that adds to the earlier one depends on where it stands.
            let adds =
                [format!("${name}"), format!("${{{name}")].iter().any(|own| value.contains(own));
            if CONFIGURING.contains(&section) && !adds && !LOCAL.contains(&name.as_str()) {
                let of = values
                    .entry(name)
                    .or_default()
                    .entry(section)
                    .or_insert((BTreeSet::new(), line));
                of.0.insert(value);
            }
        }
        for line in script.lines.iter().filter(|line| !is_comment(&line.text)) {
            if line.text.contains("HSA_OVERRIDE_GFX_VERSION") {
                let found = format!("HSA_OVERRIDE_GFX_VERSION in %{section}");
                findings.push(finding(
                    &HSA_OVERRIDE,
                    &spec.file,
                    line.number,
                    found,
                    "no override",
                ));
            }
        }
    }
    for (name, sections) in values {
        // Branches of a shell script may set several values; having no value in common is an error.
        let Some((build, (wanted, _))) = sections.iter().find(|(section, _)| **section == "build")
        else {
            continue;
        };
        for (section, (other, line)) in sections.iter().filter(|(section, _)| *section != build) {
            if wanted.is_disjoint(other) {
                let list = |values: &BTreeSet<String>| {
                    values.iter().cloned().collect::<Vec<_>>().join("` or `")
                };
                let found = format!("{name}=`{}` in %{section}", list(other));
                let expected = format!("`{}` as in %build", list(wanted));
                findings.push(finding(&DIFFER, &spec.file, *line, found, expected));
            }
        }
    }
    findings
}

fn is_unread(name: &str, spec: &Spec<'_>) -> bool {
    let known = TOOLS.contains(&name)
        // Every component gets the GPU targets under all names that build systems use.
        || TARGET_VARIABLES.contains(&name)
        || TOOL_FAMILIES.iter().any(|beginning| name.starts_with(beginning));
    !known && spec.words.as_ref().is_some_and(|words| !words.reads(name))
}

fn unread(name: &str, line: usize, spec: &Spec<'_>) -> Finding {
    let near = spec.words.as_ref().and_then(|words| nearest(name, words.iter()));
    let expected = match near {
        Some(near) => format!("a variable that upstream reads, such as `{near}`"),
        None => "a variable that upstream reads".to_owned(),
    };
    let found = format!("`{name}` exported in %build, but not used in upstream's source");
    finding(&UNREAD, &spec.file, line, found, expected)
}

pub(super) fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// Returns all exports with a value, one per variable of a command.
fn exports(lines: &[Line]) -> Vec<Export> {
    let mut found = Vec::new();
    for line in lines.iter().filter(|line| !is_comment(&line.text)) {
        let words = shell_words(&line.text);
        let mut exporting = false;
        let mut first = true;
        for word in words {
            match word.as_str() {
                ";" | "&&" | "||" | "|" | "then" | "do" | "else" | "{" | "(" => {
                    (exporting, first) = (false, true)
                }
                "export" if first => (exporting, first) = (true, false),
                word if exporting => {
                    if let Some((name, value)) = word.split_once('=')
                        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                    {
                        found.push(Export {
                            name: name.to_owned(),
                            value: value.to_owned(),
                            line: line.number,
                        });
                    }
                }
                _ => first = false,
            }
        }
    }
    found
}

/// Splits a shell line into words and removes quotes. Command separators are separate words. Does
/// not perform expansions.
pub(crate) fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut depth) =
        (Vec::new(), None::<String>, None::<char>, 0usize);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, '"' | '\'' | '`') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            // `$(...)` is one word, including spaces.
            (None, '(') if depth > 0 || word.as_ref().is_some_and(|word| word.ends_with('$')) => {
                depth += 1;
                word.get_or_insert_default().push(c);
            }
            (None, ')') if depth > 0 => {
                depth -= 1;
                word.get_or_insert_default().push(c);
            }
            (None, c) if depth > 0 => word.get_or_insert_default().push(c),
            (None, '#') if word.is_none() => break,
            (None, ';' | '|' | '&') => {
                words.extend(word.take());
                let twice = c != ';' && chars.next_if_eq(&c).is_some();
                words.push(if twice { format!("{c}{c}") } else { c.to_string() });
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::super::testing::{found, spec, words};
    use super::*;

    #[test]
    fn splits_words_like_a_shell() {
        let split = |text: &str| shell_words(text).join("|");
        assert_eq!(
            split("export A='x y' B=\"$(f -p)/z\"; C=1 # no"),
            "export|A=x y|B=$(f -p)/z|;|C=1"
        );
        assert_eq!(split("a && b || c | d & e"), "a|&&|b||||c|||d|&|e");
        assert_eq!(split("export P=$(f \"a b\" (c))/x y"), "export|P=$(f a b (c))/x|y");
        assert_eq!(split("'unclosed"), "unclosed");
    }

    #[test]
    fn finds_exports_that_upstream_does_not_read() {
        let text = "%build\nexport USE_THAT=1 TRITON_BUILD_WITH_CLANG_LD=ON\nexport CC=clang\n\
                    # export NOT_ME=1\nexport GPU_ARCHS=gfx1151\nif x; then export USE_OTHER=1; fi\n";
        let mut spec = spec(text);
        assert_eq!(found(&spec, "export-unread"), [""; 0], "no source to compare with");
        spec.words = Some(words("os.getenv('USE_THAT') TRITON_BUILD_WITH_CLANG_LLD \"USE_OTHER\""));
        assert_eq!(
            found(&spec, "export-unread"),
            [
                "x.spec:2 `TRITON_BUILD_WITH_CLANG_LD` exported in %build, but not used in upstream's source"
            ]
        );
        let findings = check(&spec);
        assert_eq!(
            findings[0].expected,
            "a variable that upstream reads, such as `TRITON_BUILD_WITH_CLANG_LLD`"
        );
    }

    #[test]
    fn finds_different_values_in_build_and_install() {
        let text = "%generate_buildrequires\nexport A=1\n%build\nexport A=\"1\" B=x\nexport C=1\n%install\n\
                    export B=y\nexport C=1\nexport PATH=/x\n%check\nexport A=9\n";
        assert_eq!(found(&spec(text), "exports-differ"), ["x.spec:7 B=`y` in %install"]);
        let branches = "%build\nif x; then export A=1; else export A=2; fi\n%install\nexport A=2\n";
        assert_eq!(found(&spec(branches), "exports-differ"), [""; 0]);
    }

    #[test]
    fn values_of_prep_and_values_that_add_to_themselves_may_differ() {
        let text = "%prep\nexport A=1\n%build\nexport A=2\nexport L=\"${L} -lx\"\nexport B=\"$B y\"\n\
                    %install\nexport A=2 L=\"$L -lz\" B=\"$B z\"\n";
        assert_eq!(found(&spec(text), "exports-differ"), [""; 0]);
    }

    #[test]
    fn finds_an_override_of_the_gpu() {
        let text = "%build\n# HSA_OVERRIDE_GFX_VERSION\nHSA_OVERRIDE_GFX_VERSION=11.0.0 make\n";
        assert_eq!(
            found(&spec(text), "hsa-override"),
            ["x.spec:3 HSA_OVERRIDE_GFX_VERSION in %build"]
        );
    }
}
