//! Tests fetching with real curl and git against a local server.

mod download;
mod git;
mod index;
mod limits;
mod packed;
mod submodules;

use std::io::Read;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fs_err as fs;

use super::name::tests::pin;
use super::testserver::{Reply, TestServer};
use super::*;
use crate::error::{Diagnose, Kind};
use crate::events::{Event, Events, Silent};
use crate::process::Command;

/// A temporary cache and workspace.
struct FetchSandbox {
    dir: tempfile::TempDir,
}

impl FetchSandbox {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn fetcher(&self) -> Fetcher<'_> {
        Fetcher::new(Cache::at(self.dir.path().join("cache")), self.dir.path(), &Silent)
    }

    fn stored(&self) -> usize {
        let files = |dir| {
            walkdir::WalkDir::new(dir).into_iter().flatten().filter(|e| e.file_type().is_file())
        };
        ["sha256", "partial"]
            .iter()
            .map(|d| files(self.dir.path().join("cache").join(d)).count())
            .sum()
    }
}

/// Returns a `.tar.gz` of several kilobytes with the top folder `demo-1`.
fn archive() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let mut noise = vec![0u32; 8192];
    let mut state = 1u32;
    for word in &mut noise {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *word = state;
    }
    let bytes: Vec<u8> = noise.iter().flat_map(|word| word.to_le_bytes()).collect();
    fs::write(dir.path().join("noise"), bytes).unwrap();
    let out = dir.path().join("out");
    pack::folder(dir.path(), "demo", pack::Which::Sources(&[]), "demo-1", 0, &out).unwrap();
    fs::read(out).unwrap()
}

fn url_pin(url: &str, sha256: Option<Sha256>) -> Pin {
    pin("1", Source::Url { url: url.into(), sha256 })
}

fn sdist_pin(project: &str, version: &str, sha256: Option<Sha256>) -> Pin {
    pin(version, Source::Sdist { project: project.into(), sha256 })
}
