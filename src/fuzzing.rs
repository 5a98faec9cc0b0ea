//! Entries for the fuzz targets in `fuzz/`: each target feeds one kind of untrusted bytes to the
//! parsers that read it, most of which are private. Compiled only for fuzzing and for tests.

use serde_json::json;

use rocmrpm_base::fuzzing::{Parser, text};

use crate::error::Problem;
use crate::index::page::{Project, Root};
use crate::index::view::View;
use crate::report::snippet;
use crate::rpms::repomd::Repomd;
use crate::spec::sections::Sections;
use crate::template::Templates;

/// The targets, each with its parsers. An input's first byte selects the parser: `0` the first.
const TARGETS: &[(&str, &[Parser])] = &[
    (
        "answer",
        &[
            crate::osv::fuzzing::advisory,
            crate::osv::fuzzing::batch,
            repomd,
            crate::closure::fuzzing::sbom,
        ],
    ),
    ("index_page", &[crate::sources::fuzzing::page, project_page, root_page]),
    (
        "lock",
        &[
            crate::closure::fuzzing::lock,
            crate::closure::fuzzing::pylock,
            |bytes| shown(&crate::workspace::fuzzing::lock(bytes)),
            crate::sources::fuzzing::cargo_lock,
        ],
    ),
    ("log", &[log]),
    ("metadata", crate::wheel::fuzzing::PARSERS),
    ("request", &[crate::index::serve::fuzzing::request]),
    ("template", &[template]),
    (
        "upstream",
        &[
            crate::patches::fuzzing::patch,
            sections,
            crate::pins::upstream::fuzzing::cmake,
            crate::pins::upstream::fuzzing::files,
        ],
    ),
    (
        "workspace",
        &[
            |bytes| shown(&crate::workspace::fuzzing::manifest(bytes)),
            |bytes| shown(&crate::workspace::fuzzing::component(bytes)),
            |bytes| shown(&crate::workspace::fuzzing::pin_set(bytes)),
            |bytes| shown(&crate::workspace::fuzzing::chroot(bytes)),
            |bytes| shown(&crate::workspace::fuzzing::provider(bytes)),
            |bytes| shown(&crate::workspace::fuzzing::copr_project(bytes)),
            |bytes| shown(&crate::workspace::fuzzing::upstreams(bytes)),
        ],
    ),
];

/// Runs one input of a target. Returns whether the selected parser accepts it.
///
/// # Panics
///
/// If there is no such target, or if a parser has a bug.
pub fn run(target: &str, input: &[u8]) -> bool {
    let Some((_, parsers)) = TARGETS.iter().find(|(name, _)| *name == target) else {
        panic!("there is no fuzz target `{target}`")
    };
    let Some((choice, bytes)) = input.split_first() else { return false };
    parsers[usize::from(choice.wrapping_sub(b'0')) % parsers.len()](bytes)
}

/// Shows mistakes as the program does. Returns whether there are none.
fn shown(problems: &[Problem]) -> bool {
    problems.iter().take(2).for_each(|problem| drop(snippet(problem)));
    problems.is_empty()
}

fn log(bytes: &[u8]) -> bool {
    let (explained, problems) = crate::build::fuzzing::log(bytes);
    shown(&problems);
    explained
}

fn repomd(bytes: &[u8]) -> bool {
    Repomd::parse(&text(bytes)).is_ok()
}

fn project_page(bytes: &[u8]) -> bool {
    let read = |bytes: &[u8]| Project::from_json(bytes, "simple/a/index.json", View::Local, "a");
    let Ok(project) = read(bytes) else { return false };
    project.html(View::Local);
    // Publishing writes back every page that it reads.
    assert_eq!(read(project.json(View::Local).as_bytes()).expect("its own page is valid"), project);
    true
}

fn root_page(bytes: &[u8]) -> bool {
    let Ok(root) = Root::from_json(bytes, "simple/index.json") else { return false };
    root.html();
    assert_eq!(Root::from_json(root.json().as_bytes(), "").expect("its own page is valid"), root);
    true
}

fn sections(bytes: &[u8]) -> bool {
    let text = text(bytes);
    let sections = Sections::parse(&text);
    Sections::expanded(&text, &Sections::marked(&text));
    !sections.packages.is_empty()
}

fn template(bytes: &[u8]) -> bool {
    let files = [("a.spec.tera".to_owned(), text(bytes).into_owned())];
    let Ok(templates) = Templates::parse(files) else { return false };
    let values =
        json!({ "version": "1.2", "targets": ["gfx1100", "gfx1151"], "pin": { "commit": "0" } });
    templates.render("a.spec.tera", &values).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seeds beside the targets, by target: name and bytes.
    fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
        let folder = format!("{}/fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
        let files = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.map(|path| (path.display().to_string(), fs_err::read(path).unwrap())).collect()
    }

    #[test]
    fn every_parser_accepts_a_seed() {
        for (target, parsers) in TARGETS {
            let seeds = seeds(target);
            for (name, seed) in &seeds {
                assert!(run(target, seed), "{name} is not accepted");
            }
            let mut chosen: Vec<usize> =
                seeds.iter().map(|(_, seed)| usize::from(seed[0] - b'0')).collect();
            chosen.sort_unstable();
            chosen.dedup();
            assert_eq!(chosen, (0..parsers.len()).collect::<Vec<_>>(), "{target}");
        }
    }

    #[test]
    fn no_parser_panics_on_truncated_seeds() {
        for (target, _) in TARGETS {
            for (_, seed) in seeds(target) {
                for length in 0..seed.len() {
                    let _ = run(target, &seed[..length]);
                }
            }
        }
    }
}
