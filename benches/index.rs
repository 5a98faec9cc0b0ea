//! How fast an index is written, measured in one run with dumb-pypi from the pip index that
//! this machine's pip is configured with, on 10,000 small wheels with the METADATA of real
//! distributions. Prints a table; nothing here fails because it is slow.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the table and the progress")]
#![allow(clippy::unwrap_used, reason = "without its tools a measurement ends")]

#[path = "index/rival.rs"]
mod rival;
#[path = "index/run.rs"]
mod run;
#[path = "index/wheels.rs"]
mod wheels;

use std::path::{Path, PathBuf};

use rocmrpm::index;
use rocmrpm::index::change::plan_add;
use rocmrpm::index::folder::Folder;

use run::{Cost, Table, alternately, process_cpu_seconds};

const WHEELS: usize = 10_000;
const DISTRIBUTIONS: usize = 500;
/// How often each is measured; the first run of each is not counted.
const RUNS: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["child", work, folder, wheels @ ..] => child(work, Path::new(folder), wheels),
        // `cargo test --benches` and the like only want to know whether it is built.
        args if args.contains(&"--bench") => measure(),
        _ => {}
    }
}

/// What is measured, in a process of its own as a command is one.
fn child(work: &str, index: &Path, wheels: &[&str]) {
    let paths: Vec<PathBuf> = wheels.iter().map(PathBuf::from).collect();
    match work {
        "write" => drop(index::write(&wheels::in_folder(&paths[0]), index).unwrap()),
        _ => {
            let folder = Folder::lock(index).unwrap();
            plan_add(&folder, None, &paths, None, None).unwrap().apply(&folder).unwrap();
        }
    }
    println!("{}", process_cpu_seconds());
}

fn ours(args: &[&Path]) -> Cost {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    run::cost(command.arg("child").args(args))
}

fn measure() {
    eprintln!("installing dumb-pypi, making {WHEELS} wheels");
    let dumb_pypi = rival::DumbPypi::installed();
    let dir = tempfile::Builder::new().tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (all, one) = wheels::make(&dir.path().join("wheels"), &dumb_pypi.metadata(), WHEELS, DISTRIBUTIONS);
    let (list, longer) = (dir.path().join("list"), dir.path().join("longer"));
    let (index, theirs) = (dir.path().join("index"), dir.path().join("theirs"));
    dumb_pypi.make_list(&[&all], &list);
    dumb_pypi.make_list(&[&all, &one], &longer);
    let one_wheel = wheels::in_folder(&one).remove(0);
    let mut table = Table::default();

    eprintln!("the whole index");
    let fresh = |path: &Path| drop(std::fs::remove_dir_all(path));
    let write = || {
        fresh(&index);
        ours(&["write".as_ref(), &index, &all])
    };
    let (mine, least) = alternately(RUNS, write, || {
        fresh(&theirs);
        dumb_pypi.run(&list, None, &theirs, &["--no-per-release-json"])
    });
    table.row("all, wheels checked and put in place", &mine, "pages from a ready list, fewest", &least, 20.0);
    let (mine, default) = alternately(RUNS, write, || {
        fresh(&theirs);
        dumb_pypi.run(&list, None, &theirs, &[])
    });
    table.row("the same", &mine, "pages from a ready list, all", &default, 20.0);
    let (mine, whole) = alternately(RUNS, write, || {
        fresh(&theirs);
        let made = dumb_pypi.make_list(&[&all], &dir.path().join("made"));
        made + dumb_pypi.run(&list, None, &theirs, &[])
    });
    table.row("the same", &mine, "list from the wheels, then all pages", &whole, 20.0);

    eprintln!("again, nothing new");
    let (again, _) = alternately(RUNS, || ours(&["write".as_ref(), &index, &all]), Cost::default);
    table.alone("all again, nothing new", &again);

    eprintln!("one wheel more");
    let page = wheels::page_of(&index, &one_wheel);
    let before: Vec<Vec<u8>> = page.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let add = || {
        // As it was before the wheel came.
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
    table.row("one more, checked and put in place", &mine, "--previous-package-list-json", &least, 200.0);
    println!("{table}");
}
