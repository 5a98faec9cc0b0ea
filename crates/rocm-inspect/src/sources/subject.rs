//! Creates and completes subjects: names, digests, sums over their files. It neither reads archives
//! nor judges files.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fs_err as fs;

use crate::code_object::Kernels;
use crate::facts::{Contents, DeviceCode, Subject, SubjectKind, Target};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::process::check_stop;

impl Subject {
    pub(super) fn new(path: &Path, kind: SubjectKind) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let path = path.display().to_string();
        Self {
            path,
            kind,
            name,
            package: None,
            debug: false,
            sha256: None,
            size: None,
            files: Vec::new(),
            device: Vec::new(),
            unread: Vec::new(),
            contents: Contents::default(),
        }
    }

    /// Sorts the files and sums up their GPU code.
    pub(super) fn completed(mut self) -> Self {
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        self.unread.sort();
        let mut sums: BTreeMap<_, (u64, u64, Kernels)> = BTreeMap::new();
        for code in self.files.iter().flat_map(|file| &file.device) {
            let key: (&Target, _, _, _) =
                (&code.target, code.storage, code.compression, code.version);
            let sum = sums.entry(key).or_insert((0, 0, Kernels::ZERO));
            sum.0 = sum.0.saturating_add(code.count);
            sum.1 = sum.1.saturating_add(code.bytes);
            sum.2 = sum.2.plus(Kernels { count: code.kernels, code: code.kernel_code });
        }
        let device =
            sums.into_iter().map(|((target, storage, compression, version), sum)| DeviceCode {
                target: target.clone(),
                storage,
                compression,
                version,
                count: sum.0,
                bytes: sum.1,
                kernels: sum.2.count,
                kernel_code: sum.2.code,
            });
        self.device = device.collect();
        self
    }
}

/// Returns the digest and size of the file at `path`, unless `abandoned` or a request to stop
/// interrupts it.
pub(super) fn digest(path: &Path, abandoned: &AtomicBool) -> io::Result<(Sha256, u64)> {
    Sha256::of_reader(Stoppable { file: fs::File::open(path)?, abandoned })
}

struct Stoppable<'a> {
    file: fs::File,
    abandoned: &'a AtomicBool,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        check_stop().map_err(io::Error::other)?;
        match self.abandoned.load(Ordering::Relaxed) {
            true => Err(io::Error::other("canceled after another error")),
            false => self.file.read(buffer),
        }
    }
}
