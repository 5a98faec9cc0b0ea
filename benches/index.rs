//! Measures how fast an index is written, against dumb-pypi from the pip index that pip is
//! configured with on this machine, with 10,000 small wheels that have the METADATA of real
//! distributions. Prints a table; slow results do not fail.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the table and the progress")]
#![allow(clippy::unwrap_used, reason = "a benchmark without its tools stops")]

#[path = "shared/aligned.rs"]
mod aligned;
#[path = "shared/growth.rs"]
mod growth;
#[path = "index/rival.rs"]
mod rival;
#[path = "index/run.rs"]
mod run;
#[path = "index/wheels.rs"]
mod wheels;

use std::cell::Cell;
use std::path::{Path, PathBuf};

use rocmrpm::index;
use rocmrpm::index::change::{plan_add, plan_promote};
use rocmrpm::index::folder::Folder;

use growth::{Growth, best};
use run::{Cost, Table, alternately, process_cpu_seconds};

const WHEELS: usize = 10_000;
const DISTRIBUTIONS: usize = 500;
/// Measured runs of each, after one warm-up run.
const RUNS: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["child", work, folder, wheels @ ..] => child(work, Path::new(folder), wheels),
        // `cargo test --benches` and the like only check that it builds.
        args if args.contains(&"--bench") => measure(),
        _ => {}
    }
}

/// Does the measured work in a separate process, as a command would.
fn child(work: &str, index: &Path, wheels: &[&str]) {
    let paths: Vec<PathBuf> = wheels.iter().map(PathBuf::from).collect();
    match work {
        "write" => drop(index::write(&wheels::in_folder(&paths[0]), index).unwrap()),
        "copy" => copy_pages(index, &paths[0]),
        _ => {
            let folder = Folder::lock(index).unwrap();
            let change = match work {
                "publish" => plan_add(
                    &folder,
                    Some("testing"),
                    &wheels::in_folder(&paths[0]),
                    &[],
                    None,
                    None,
                ),
                "publish-one" => plan_add(&folder, Some("testing"), &paths, &[], None, None),
                "promote" => plan_promote(&folder, "testing", "stable", &[]),
                _ => plan_add(&folder, None, &paths, &[], None, None),
            };
            change.unwrap().apply(&folder).unwrap();
        }
    }
    println!("{}", process_cpu_seconds());
}

/// Copies the pages of a channel, with one sync: the least that a promotion must read and write.
fn copy_pages(index: &Path, channel: &Path) {
    for page in walkdir::WalkDir::new(channel).min_depth(1) {
        let page = page.unwrap();
        let copy = index.join(page.path().strip_prefix(channel).unwrap());
        match page.file_type().is_dir() {
            true => std::fs::create_dir_all(copy).unwrap(),
            false => drop(std::fs::copy(page.path(), copy).unwrap()),
        }
    }
    rustix::fs::syncfs(std::fs::File::open(index).unwrap()).unwrap();
}

fn ours(args: &[&Path]) -> Cost {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    run::cost(command.arg("child").args(args))
}

fn measure() {
    eprintln!("installing dumb-pypi, making {WHEELS} wheels");
    let dumb_pypi = rival::DumbPypi::installed();
    let dir = tempfile::Builder::new().tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (all, one) =
        wheels::make(&dir.path().join("wheels"), &dumb_pypi.metadata(), WHEELS, DISTRIBUTIONS);
    let (list, longer) = (dir.path().join("list"), dir.path().join("longer"));
    let (index, theirs) = (dir.path().join("index"), dir.path().join("theirs"));
    let published = dir.path().join("published");
    dumb_pypi.make_list(&[&all], &list);
    dumb_pypi.make_list(&[&all, &one], &longer);
    let one_wheel = wheels::in_folder(&one).remove(0);
    // Nothing is removed before the end: after many files were removed, ext4 creates files slowly for
    // some seconds, because it does not reuse their inodes immediately.
    let count = Cell::new(0);
    let fresh = || {
        count.set(count.get() + 1);
        dir.path().join(count.get().to_string())
    };
    let mut table = Table::default();

    eprintln!("all pages");
    ours(&["publish".as_ref(), &published, &all]);
    let promote = || {
        let _ = std::fs::rename(published.join("stable"), fresh());
        ours(&["promote".as_ref(), &published])
    };
    for (rival, options) in [
        ("pages from a prepared list, fewest", &["--no-per-release-json"][..]),
        ("pages from a prepared list, all", &[]),
    ] {
        let (mine, theirs) =
            alternately(RUNS, promote, || dumb_pypi.run(&list, None, &fresh(), options));
        table.row("pages from the index's data", &mine, rival, &theirs, Some(20.0));
    }

    let copy = || {
        let copy = fresh();
        std::fs::create_dir(&copy).unwrap();
        ours(&["copy".as_ref(), &copy, &published.join("stable")])
    };
    let (least, _) = alternately(RUNS, copy, Cost::default);
    table.single("copying these pages, one sync", &least);

    eprintln!("the whole index from wheels");
    let write = || ours(&["write".as_ref(), &fresh(), &all]);
    let (mine, whole) = alternately(RUNS, write, || {
        let made = dumb_pypi.make_list(&[&all], &dir.path().join("made"));
        made + dumb_pypi.run(&list, None, &fresh(), &[])
    });
    let what = "wheels checked and installed, pages";
    table.row(what, &mine, "list from unchecked wheels, pages (all)", &whole, None);

    eprintln!("again, without changes");
    ours(&["write".as_ref(), &index, &all]);
    let (again, _) = alternately(RUNS, || ours(&["write".as_ref(), &index, &all]), Cost::default);
    table.single("all again, without changes", &again);

    eprintln!("one more wheel");
    let page = wheels::page_of(&index, &one_wheel);
    let before: Vec<Vec<u8>> = page.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let add = || {
        // Restore the state before the wheel was added.
        page.iter().zip(&before).for_each(|(path, text)| std::fs::write(path, text).unwrap());
        for path in wheels::package_of(&index, &one_wheel) {
            let _ = std::fs::remove_file(path);
        }
        ours(&["add".as_ref(), &index, &one_wheel])
    };
    dumb_pypi.run(&list, None, &theirs, &["--no-per-release-json"]);
    let (mine, least) = alternately(RUNS * 4, add, || {
        dumb_pypi.run(&longer, Some(&list), &theirs, &["--no-per-release-json"])
    });
    table.row(
        "one more, checked and installed",
        &mine,
        "--previous-package-list-json",
        &least,
        Some(200.0),
    );
    println!("{table}");
    println!("{}", grown(dir.path(), &headers_of(dumb_pypi.metadata())));
}

/// Returns the headers of METADATA: 100,000 wheels with descriptions need more than 10 GB.
fn headers_of(metadata: Vec<String>) -> Vec<String> {
    let header = |text: String| text.split("\n\n").next().unwrap_or_default().to_owned() + "\n";
    metadata.into_iter().map(header).collect()
}

/// Measures all pages of an index, and one more wheel, with three sizes.
fn grown(dir: &Path, metadata: &[String]) -> Growth {
    let (mut growth, sizes, mut one_more) =
        (Growth::default(), [1_000, 10_000, 100_000], Vec::new());
    growth.row("wheels of an index: all pages", sizes, |size| {
        let all = wheels::make(&dir.join(format!("grown-{size}")), metadata, size, size / 20).0;
        let index = dir.join(format!("index-{size}"));
        ours(&["publish".as_ref(), &index, &all]);
        let (pages, count) = (index.join("stable"), Cell::new(0));
        let next = || count.replace(count.get() + 1);
        let all_pages = best(|| {
            let _ = std::fs::rename(&pages, dir.join(format!("grown-{size}-{}", next())));
            ours(&["promote".as_ref(), &index]);
        });
        // Each time, in a version that the channel does not have.
        one_more.push(best(|| {
            let wheel =
                wheels::another(&dir.join(format!("more-{size}")), &metadata[0], size + next());
            ours(&["publish-one".as_ref(), &index, &wheel]);
        }));
        all_pages
    });
    growth.add("wheels of an index: one more", sizes, one_more);
    growth
}
