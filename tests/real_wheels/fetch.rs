//! Wheels from the pip index that this machine's pip is configured with, kept in the
//! target folder between runs, and what is in them. Not what they are compared with.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rocmrpm::process::Command;

const REQUIREMENTS: &str = include_str!("requirements.txt");

/// One after the other in one process; others see whole files only.
static FETCHING: Mutex<()> = Mutex::new(());

/// The folder for what is worth keeping between runs.
pub fn store(name: &str) -> PathBuf {
    let store = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs_err::create_dir_all(&store).unwrap();
    store
}

/// Returns the wheel of a distribution in requirements.txt. Only the first call on
/// a machine needs the network.
pub fn wheel(distribution: &str) -> PathBuf {
    let _one = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let start = format!("{distribution}==");
    let line = REQUIREMENTS.lines().find(|line| line.starts_with(&start)).unwrap();
    let (pin, _) = line.split_once(' ').unwrap();
    let file = format!("{}-", pin.replace('-', "_").replace("==", "-"));
    let wheels = store("wheels");
    if let Some(wheel) = starting_with(&wheels, &file) {
        return wheel;
    }
    // On the same file system, so that renaming is all or nothing.
    let dir = tempfile::tempdir_in(&wheels).unwrap();
    fs_err::write(dir.path().join("requirements.txt"), line).unwrap();
    let args = "-m pip download --quiet --no-deps --require-hashes --only-binary=:all: --python-version=3.12 \
                --platform=manylinux_2_24_x86_64 --platform=manylinux_2_27_x86_64 \
                --platform=manylinux_2_34_x86_64 -r requirements.txt";
    Command::new("/usr/bin/python3")
        .args(args.split_whitespace())
        .cwd(dir.path())
        .output()
        .unwrap_or_else(|error| {
            panic!("cannot fetch {pin} from this machine's pip index: {error:?}")
        });
    let fetched = starting_with(dir.path(), &file).unwrap();
    let wheel = wheels.join(fetched.file_name().unwrap());
    fs_err::rename(fetched, &wheel).unwrap();
    wheel
}

fn starting_with(dir: &Path, start: &str) -> Option<PathBuf> {
    let names = fs_err::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names = names.filter(|name| name.starts_with(start) && name.ends_with(".whl"));
    names.next().map(|name| dir.join(name))
}

/// Unpacks a wheel into a folder, by Python, whose reader is not ours.
pub fn unpack(wheel: &Path, into: &Path) {
    let command =
        Command::new("/usr/bin/python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(into);
    command.output().unwrap_or_else(|error| panic!("{}: {error}", wheel.display()));
}
