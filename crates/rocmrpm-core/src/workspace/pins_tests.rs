use super::*;
use crate::digest::Sha256;
use crate::workspace::pin::Evidence;

fn read(text: &str, lock: &Lock, overrides: &[(&str, &str)]) -> (PinSet, Vec<String>) {
    let file = File { name: "pins/x.toml".into(), text: text.into() };
    let overrides = overrides.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let mut problems = Vec::new();
    let set = PinSet::read("x", file, lock, &overrides, &mut problems);
    (set, problems.into_iter().map(|p| p.message).collect())
}

fn pin(set: &PinSet, name: &str) -> Pin {
    set.pins[&ComponentName::parse(name).unwrap()].value.clone()
}

#[test]
fn fills_in_the_version_and_drops_digests_of_overrides() {
    let digest = Sha256::of_bytes("x");
    let text = format!(
        "[a]\nversion = \"1\"\nurl = \"https://h/a-{{version}}.tar.gz\"\nsha256 = \"{digest}\"\n"
    );
    let url = |v: &str| format!("https://h/a-{v}.tar.gz");
    let (set, problems) = read(&text, &Lock::default(), &[]);
    assert_eq!(
        (pin(&set, "a").source, problems),
        (Source::Url { url: url("1"), sha256: Some(digest) }, vec![])
    );
    let (set, _) = read(&text, &Lock::default(), &[("a", "2")]);
    assert_eq!(pin(&set, "a").source, Source::Url { url: url("2"), sha256: None });
    assert!(pin(&set, "a").overridden);
}

#[test]
fn a_branch_has_the_version_and_the_commit_of_the_lock() {
    let commit = "a".repeat(40);
    let text = format!(
        "[a]\nversion = \"2~a0^20260102gitaaaaaaa\"\norigin = \"u\"\nbranch = \"main\"\n\
         commit = \"{commit}\"\n"
    );
    let lock = Lock::read(&File { name: "x.lock".into(), text }, &mut Vec::new());
    let set = |more: &str| format!("[a]\ngit = \"u\"\n{more}");
    let read = |more: &str, overrides: &[(&str, &str)]| {
        let (set, problems) = read(&set(more), &lock, overrides);
        assert_eq!(problems, [""; 0], "{more}");
        pin(&set, "a")
    };
    let locked = read("branch = \"main\"\n", &[]);
    assert_eq!(locked.version, "2~a0^20260102gitaaaaaaa");
    assert!(matches!(&locked.source, Source::Git { commit: Some(found), .. } if *found == commit));
    let other = read("branch = \"next\"\n", &[]);
    assert_eq!((other.version.as_str(), other.source.is_immutable()), (UNLOCKED, false));
    let other = "b".repeat(40);
    let at = read("branch = \"main\"\n", &[("a", &format!("@{other}"))]);
    assert_eq!((at.version.as_str(), at.follows), ("2~a0^gitbbbbbbb", None));
    for (more, problem) in [
        ("branch = \"main\"\nversion = \"1\"\n", "`a` follows a branch and has a version"),
        ("branch = \"-x\"\nversion = \"1\"\n", "`-x` is not the name of a branch"),
        (
            "version = \"1\"\nversion-from = \"x\"\n",
            "`version-from` is for a pin that follows a branch",
        ),
        ("", "`version` is missing in `[a]`"),
    ] {
        assert_eq!(super::tests::read(&set(more), &lock, &[]).1, [problem], "{more}");
    }
}

#[test]
fn uses_commits_of_the_command_line() {
    let commit = "c".repeat(40);
    let text = "[a]\nversion = \"1.2\"\nsdist = \"a\"\n";
    let other = format!("git:file:///a@b/c@{commit}");
    let (set, problems) = read(text, &Lock::default(), &[("a", &other)]);
    assert_eq!(problems, [""; 0]);
    let found = pin(&set, "a");
    assert_eq!((found.version.as_str(), found.overridden), ("1.2^gitccccccc", true));
    let url = "file:///a@b/c".to_owned();
    let expected =
        Source::Git { url, commit: Some(commit.clone()), submodules: true, paths: vec![] };
    assert_eq!(found.source, expected);
    let (_, problems) = read(text, &Lock::default(), &[("a", &format!("@{commit}"))]);
    assert_eq!(problems, ["`a` is not pinned to a git repository"]);
}

#[test]
fn reports_mistakes() {
    let text = "[a]\nversion = \"1-2\"\nurl = \"ftp://x\"\n[b]\nversion = \"1\"\n\
                [c]\nversion = \"1\"\ngit = \"x\"\nsdist = \"c\"\n[d]\nversion = \"1\"\ngit = \"u\"\ncommit = \"main\"\n\
                [e]\nversion = \"1\"\npath = \"../x\"\n[f]\nversion = \"1\"\nsdist = \"f\"\nsha256 = \"12\"\n";
    let (_, problems) = read(text, &Lock::default(), &[]);
    assert_eq!(
        problems,
        [
            "`1-2` cannot be the version of an RPM",
            "this is not a URL that can be fetched",
            "`b` has no source",
            "`c` has more than one source",
            "this is not a full commit",
            "the path leads out of the workspace",
            "this is not a SHA-256 digest",
        ]
    );
}

#[test]
fn packs_listed_paths_of_the_workspace_itself() {
    let text = |more: &str| format!("[a]\nversion = \"1\"\npath = \".\"\n{more}");
    let (set, problems) = read(&text("paths = [\"src\", \"Cargo.toml\"]\n"), &Lock::default(), &[]);
    let paths = vec!["src".to_owned(), "Cargo.toml".to_owned()];
    assert_eq!(pin(&set, "a").source, Source::Folder { path: PathBuf::new(), paths });
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(read(&text(""), &Lock::default(), &[]).1, ["the path is the whole workspace"]);
    let outside = text("paths = [\"../src\"]\n");
    assert_eq!(read(&outside, &Lock::default(), &[]).1, ["`../src` leads out of the source"]);
}

#[test]
fn completes_only_the_locked_source() {
    let digest = Sha256::of_bytes("x");
    let text = format!(
        "[a]\nversion = \"1\"\norigin = \"a\"\nsha256 = \"{digest}\"\nsize = 7\n\n\
         [a.sources.crates]\nversion = \"1\"\norigin = \"Cargo.lock\"\ncrates = 3\n"
    );
    let lock = Lock::read(&File { name: "x.lock".into(), text }, &mut Vec::new());
    let crates = "[a.sources.crates]\ncargo-vendor = \"Cargo.lock\"\n";
    let read_pin = |version: &str, more: &str| {
        let text = format!("[a]\nversion = \"{version}\"\nsdist = \"a\"\n{more}{crates}");
        pin(&read(&text, &lock, &[]).0, "a")
    };
    let known = |pin: &Pin| (pin.evidence.0.is_some(), pin.sources["crates"].evidence.0.is_some());
    let same = read_pin("1", "");
    assert_eq!(same.source, Source::Sdist { project: "a".into(), sha256: Some(digest) });
    assert_eq!(known(&same), (true, true));
    let other = read_pin("2", "");
    assert_eq!(other.source, Source::Sdist { project: "a".into(), sha256: None });
    assert_eq!(known(&other), (false, false));
    // A pin's own digest takes precedence, and the lock is then about another file.
    let own = Sha256::of_bytes("y");
    let changed = read_pin("1", &format!("sha256 = \"{own}\"\n"));
    assert_eq!(changed.source, Source::Sdist { project: "a".into(), sha256: Some(own) });
    assert_eq!(known(&changed), (false, false));
    assert_eq!(
        same.sources["crates"],
        Pin { evidence: Evidence(None), ..same.sources["crates"].clone() }
    );
}
