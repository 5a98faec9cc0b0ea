//! Checks a spec for literal text that does not belong there: GPU targets, folders, and programs
//! that use the network. It does not parse sections.

use super::exports::{is_comment, shell_words};
use super::{Finding, Spec, finding};
use crate::lint_rules::{GPU_LIST, NETWORK, OPT_ROCM};
use crate::spec::sections::{Line, section};

/// Programs that use the network, and the subcommands that do so; an empty list means always.
const FETCHERS: &[(&str, &[&str])] = &[
    ("curl", &[]),
    ("wget", &[]),
    ("git", &["clone", "fetch", "pull", "submodule", "ls-remote"]),
    ("pip", &["install", "download"]),
    ("pip3", &["install", "download"]),
    ("cargo", &["fetch", "install", "vendor", "update"]),
    ("go", &["get"]),
    ("npm", &["install", "ci"]),
    ("yarn", &["install"]),
    ("pnpm", &["install"]),
    ("conda", &["install"]),
    ("dnf", &["install"]),
    ("svn", &["checkout"]),
];

/// Options that keep such a program offline.
const OFFLINE: &[&str] = &["--no-index", "--offline", "--frozen"];

pub(super) fn check(spec: &Spec<'_>) -> Vec<Finding> {
    let mut findings = gpu_lists(spec);
    for script in &spec.sections.scripts {
        for line in script.lines.iter().filter(|line| !is_comment(&line.text)) {
            if let Some(call) = fetches(&line.text) {
                let found = format!("`{call}` in %{}", script.section);
                findings.push(finding(
                    &NETWORK,
                    &spec.file,
                    line.number,
                    found,
                    "a build without network",
                ));
            }
        }
    }
    if spec.prefix == "/usr" {
        // In %prep, edits that remove the path from upstream's files mention it.
        let scripts = spec.sections.scripts.iter().filter(|script| script.section != "prep");
        let lines: Vec<&Line> =
            scripts.flat_map(|script| &script.lines).chain(&spec.sections.files).collect();
        for line in lines {
            if !is_comment(&line.text) && line.text.contains("/opt/rocm") {
                let found = line.text.trim().to_owned();
                findings.push(finding(
                    &OPT_ROCM,
                    &spec.file,
                    line.number,
                    found,
                    "ROCm's folders below /usr",
                ));
            }
        }
    }
    findings
}

/// Sections that do not decide what a build makes: if a file in `%files` is missing, rpm fails.
const NOT_BUILT: &[&str] = &["description", "files", "changelog"];

/// Beginnings of tags that name files, or only inform.
const NOT_LISTS: &[&str] = &["source", "patch", "summary", "url"];

/// Finds literal GPU targets that decide what is built.
fn gpu_lists(spec: &Spec<'_>) -> Vec<Finding> {
    let (file, text) = &spec.written;
    let expected = "the targets of the workspace";
    let mut findings = Vec::new();
    let mut within = None;
    for (line, number) in without_comments(text).lines().zip(1..) {
        within = section(line).or(within);
        let tags = within.is_none_or(|section| section == "package");
        let is_tag = |tag: &str| {
            let start = line.get(..tag.len());
            tags && start.is_some_and(|start| start.eq_ignore_ascii_case(tag))
        };
        if within.is_some_and(|section| NOT_BUILT.contains(&section))
            || NOT_LISTS.iter().any(|tag| is_tag(tag))
        {
            continue;
        }
        let list = gpu_targets(line);
        if !list.is_empty() {
            let mut finding = finding(&GPU_LIST, file, number, list.join(", "), expected);
            if spec.own.is_none() {
                finding.expected = "a list that the release maintains".into();
                finding.help = "use a macro of the release's rocm-rpm-macros, such as \
                                `%{rocm_gpu_list_default}`"
                    .into();
            }
            findings.push(finding);
        }
    }
    if let Some(own) = &spec.own {
        for (name, value) in &own.env {
            let list = gpu_targets(value);
            if !list.is_empty() {
                let found = format!("{} in `{name}`", list.join(", "));
                findings.push(finding(&GPU_LIST, &own.file, 0, found, expected));
            }
        }
    }
    findings
}

/// Blanks out comments of templates and specs but keeps line breaks.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("<#") {
        let (before, comment) = rest.split_at(start);
        out.push_str(before);
        let end = comment.find("#>").map_or(comment.len(), |end| end + 2);
        out.extend(comment[..end].chars().filter(|c| *c == '\n'));
        rest = &comment[end..];
    }
    out.push_str(rest);
    out.lines()
        .map(|line| if is_comment(line) { "\n".to_owned() } else { format!("{line}\n") })
        .collect()
}

/// Returns all GPU target names in a text: `gfx` and two to four hexadecimal digits.
fn gpu_targets(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("gfx") {
        let inside = text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let digits = text[at + 3..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let end = at + 3 + digits;
        let longer = text[end..].starts_with(|c: char| c.is_ascii_alphanumeric());
        let number = text[at + 3..].starts_with(|c: char| c.is_ascii_digit());
        if !inside
            && !longer
            && number
            && (2..=4).contains(&digits)
            && !found.contains(&&text[at..end])
        {
            found.push(&text[at..end]);
        }
    }
    found
}

/// Returns the first call on a line that uses the network.
fn fetches(line: &str) -> Option<String> {
    let words = shell_words(line);
    for command in words.split(|word| [";", "&&", "||", "|", "&"].contains(&word.as_str())) {
        let mut words = command
            .iter()
            .map(String::as_str)
            .skip_while(|word| {
                // Shell keywords and variable assignments before a command.
                ["if", "then", "else", "do", "while", "!", "(", "{", "time", "exec", "env"]
                    .contains(word)
                    || word.split_once('=').is_some_and(|(name, _)| !name.contains('/'))
            })
            .peekable();
        let Some(program) = words.next() else { continue };
        let mut program = program.rsplit('/').next().unwrap_or(program);
        if program.starts_with("python") && words.next_if_eq(&"-m").is_some() {
            program = words.next().unwrap_or_default();
        }
        let Some((_, needed)) = FETCHERS.iter().find(|(name, _)| *name == program) else {
            continue;
        };
        let rest: Vec<&str> = words.collect();
        // Global options may precede the subcommand: `git -C dir clone`.
        let called = needed.is_empty() || rest.iter().take(4).any(|word| needed.contains(word));
        // `curl --version` does not use the network.
        let runs = rest.iter().all(|word| ["--version", "-V", "--help"].contains(word))
            && !rest.is_empty();
        if called && !runs && !rest.iter().any(|word| OFFLINE.contains(word)) {
            let word = rest.iter().find(|word| needed.contains(word));
            return Some(word.map_or(program.to_owned(), |word| format!("{program} {word}")));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::testing::{found, spec};
    use super::*;

    #[test]
    fn finds_gpu_targets() {
        assert_eq!(
            gpu_targets("x=gfx1151;gfx90a gfx11-generic gfx1151"),
            ["gfx1151", "gfx90a", "gfx11"]
        );
        assert_eq!(gpu_targets("gfxabc mygfx1151 gfx1 gfx12345 gfx90axyz rocm_gfx906"), [""; 0]);
        let mut spec = spec("");
        let template = "<# gfx900\n gfx906 #>\nexport A=<{ gpu_targets }>\n# gfx1100\n  export B=gfx1030\n\
                        %changelog\n- gfx1201\n";
        spec.written = ("t.spec.tera".into(), template.into());
        assert_eq!(found(&spec, "gpu-list-fixed"), ["t.spec.tera:5 gfx1030"]);
    }

    #[test]
    fn ignores_gpu_targets_in_names_of_files_and_descriptions() {
        let mut spec = spec("");
        let text = "Summary: For gfx1250\nSource5: gfx1103\nPatch2: 0001-gfx1153.patch\nBuildRequires: k-gfx1151\n\
                    %description\nFor gfx1250.\n%package gfx\nSummary: gfx9\n%build\nsource=gfx1100\n\
                    %files\n%dir /usr/lib64/rocm/gfx1200/lib\n%changelog\n- gfx1201\n";
        spec.written = ("x.spec".into(), text.into());
        assert_eq!(found(&spec, "gpu-list-fixed"), ["x.spec:4 gfx1151", "x.spec:10 gfx1100"]);
    }

    #[test]
    fn rejects_opt_rocm_if_rocm_is_in_usr() {
        let text = "%prep\nsed -e s,/opt/rocm,/usr, x\n%build\n# /opt/rocm\nexport A=/opt/rocm/bin\n%files\n/opt/rocm/x\n";
        let mut spec = spec(text);
        assert_eq!(
            found(&spec, "opt-rocm-in-usr"),
            ["x.spec:5 export A=/opt/rocm/bin", "x.spec:7 /opt/rocm/x"]
        );
        spec.prefix = "/opt/rocm/core-7.14".into();
        assert_eq!(found(&spec, "opt-rocm-in-usr"), [""; 0]);
    }

    #[test]
    fn finds_programs_that_use_the_network() {
        let fetching = [
            ("curl -LO https://x/y", "curl"),
            ("test -d x || git -C x submodule update --init", "git submodule"),
            ("A=1 /usr/bin/python3 -m pip install foo", "pip install"),
            ("if wget -q x; then", "wget"),
            ("cargo vendor", "cargo vendor"),
        ];
        for (line, call) in fetching {
            assert_eq!(fetches(line).as_deref(), Some(call), "{line}");
        }
        let quiet = [
            "pip install --no-index x.whl",
            "git apply x",
            "echo curl",
            "curl --version",
            "cargo build --offline",
            "cmake -DCURL=curl",
            "git init; git add .",
        ];
        for line in quiet {
            assert_eq!(fetches(line), None, "{line}");
        }
        let text = "%build\n# curl x\nmake && curl x\n";
        assert_eq!(found(&spec(text), "network-in-build"), ["x.spec:3 `curl` in %build"]);
    }
}
