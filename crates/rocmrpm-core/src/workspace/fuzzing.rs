//! Entry points for fuzzing; see `src/fuzzing.rs` of the program.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use super::document::File;
use super::lock::Lock;
use super::pins::PinSet;
use super::{Chroot, Component, CoprProject, Manifest, Provider, Upstreams};
use crate::error::Problem;
use rocmrpm_base::fuzzing::text;

/// The chroots that a COPR project may name.
static CHROOTS: LazyLock<BTreeMap<String, Chroot>> = LazyLock::new(|| {
    let text =
        include_str!("../../../../fuzz/seeds/workspace/chroot.toml")[1..].replace("45", "43");
    let name = "fedora-43".to_owned();
    let chroot = Chroot::read(&name, File { name: "chroot.toml".into(), text }, &mut Vec::new());
    BTreeMap::from([(name, chroot)])
});

pub fn manifest(bytes: &[u8]) -> Vec<Problem> {
    read(bytes, |file, problems| drop(Manifest::read(&file, problems)))
}

pub fn component(bytes: &[u8]) -> Vec<Problem> {
    read(bytes, |file, problems| {
        drop(Component::from_file(&file, Path::new("a"), vec![], problems))
    })
}

pub fn pin_set(bytes: &[u8]) -> Vec<Problem> {
    let (lock, overrides) = (Lock::default(), BTreeMap::new());
    read(bytes, |file, problems| drop(PinSet::read("set", file, &lock, &overrides, problems)))
}

pub fn chroot(bytes: &[u8]) -> Vec<Problem> {
    read(bytes, |file, problems| drop(Chroot::read("fedora-43-x86_64", file, problems)))
}

pub fn provider(bytes: &[u8]) -> Vec<Problem> {
    read(bytes, |file, problems| drop(Provider::read("fedora", file, problems)))
}

pub fn copr_project(bytes: &[u8]) -> Vec<Problem> {
    read(bytes, |file, problems| drop(CoprProject::read(file, &CHROOTS, problems)))
}

pub fn upstreams(bytes: &[u8]) -> Vec<Problem> {
    read(bytes, |file, problems| drop(Upstreams::read(&file, problems)))
}

pub fn lock(bytes: &[u8]) -> Vec<Problem> {
    read(bytes, |file, problems| {
        let lock = Lock::read(&file, problems);
        if problems.is_empty() {
            let file = File { text: lock.text(), ..file };
            assert_eq!(Lock::read(&file, problems).text(), file.text, "{problems:?}");
        }
    })
}

/// Reads a file and returns its problems.
fn read(bytes: &[u8], parser: impl FnOnce(File, &mut Vec<Problem>)) -> Vec<Problem> {
    let mut problems = Vec::new();
    parser(File { name: "a.toml".into(), text: text(bytes).into_owned() }, &mut problems);
    problems
}
