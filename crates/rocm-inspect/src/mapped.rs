//! Maps files that other programs can truncate while we read them. Reading beyond the end of a
//! mapped file raises SIGBUS, which ends the process. The signal handler here replaces the missing
//! pages with zeros instead, and [`Mapped::unchanged`] then returns an error. Our own temporary
//! files do not need this.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use memmap2::{Mmap, MmapOptions};

/// How many files can be mapped at a time; inspection maps one per core.
const SLOTS: usize = 1024;

/// The range of a map, for the signal handler, which must not take a lock.
struct Slot {
    taken: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    torn: AtomicBool,
}

static MAPS: [Slot; SLOTS] = [const {
    Slot {
        taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        torn: AtomicBool::new(false),
    }
}; SLOTS];

/// The page size of this machine, which the handler cannot query.
static PAGE: AtomicUsize = AtomicUsize::new(4096);

/// A mapped part of a file.
#[derive(Debug)]
pub(super) struct Mapped {
    map: Mmap,
    file: File,
    /// The file's length when it was mapped.
    length: u64,
    slot: &'static Slot,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

impl Mapped {
    /// Maps a part of a file.
    pub(super) fn new(file: &File, options: &MmapOptions) -> io::Result<Self> {
        install_handler();
        let file = file.try_clone()?;
        let length = file.metadata()?.len();
        let free = |slot: &&Slot| !slot.taken.swap(true, Ordering::AcqRel);
        let slot =
            MAPS.iter().find(free).ok_or_else(|| io::Error::other("too many files are mapped"))?;
        let map =
            map(options, &file).inspect_err(|_| slot.taken.store(false, Ordering::Release))?;
        let start = map.as_ptr() as usize;
        slot.torn.store(false, Ordering::Relaxed);
        slot.start.store(start, Ordering::Release);
        slot.end.store(start + map.len(), Ordering::Release);
        Ok(Self { map, file, length, slot })
    }

    /// Returns an error if the file's length changed since it was mapped, so that the bytes read
    /// from it may differ from its content.
    pub(super) fn unchanged(&self) -> io::Result<()> {
        let torn = self.slot.torn.load(Ordering::Acquire);
        match torn || self.file.metadata()?.len() != self.length {
            true => Err(io::Error::other("the file changed while it was being read")),
            false => Ok(()),
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.slot.end.store(0, Ordering::Release);
        self.slot.start.store(0, Ordering::Release);
        self.slot.taken.store(false, Ordering::Release);
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

#[expect(unsafe_code, reason = "mapping a file; see the comment inside")]
fn map(options: &MmapOptions, file: &File) -> io::Result<Mmap> {
    // SAFETY: the map is read-only and private to us, and everything read from it is validated
    // where it is used. If another program writes to the file meanwhile, the result can be wrong;
    // if it truncates the file, the handler below keeps the memory readable.
    unsafe { options.map(file) }
}

#[expect(unsafe_code, reason = "handling a signal; see the comment inside")]
fn install_handler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `sysconf` only returns a value, and the action is valid: zeros mean no flags and
        // an empty mask. The handler only reads and writes atomics and makes system calls, which
        // signal handlers may do. It replaces std's handler, which would remove itself at the first
        // signal; that one detects stack overflows, which raise SIGSEGV on Linux. Without a
        // handler, a truncated file ends the process.
        unsafe {
            let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096);
            PAGE.store(page, Ordering::Relaxed);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    });
}

#[expect(unsafe_code, reason = "handling a signal; see the comments inside")]
extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid value, and sets the address for SIGBUS.
    let address = unsafe { (*info).si_addr() } as usize;
    let inside = |slot: &&Slot| {
        slot.start.load(Ordering::Acquire) <= address && address < slot.end.load(Ordering::Acquire)
    };
    let zeroed = MAPS.iter().find(inside).is_some_and(|slot| {
        slot.torn.store(true, Ordering::Release);
        put_zeros(address, slot.end.load(Ordering::Acquire))
    });
    if !zeroed {
        // The address is not in one of our files: with the default action, repeating the access
        // ends the process.
        // SAFETY: this only restores the default action.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    }
}

/// Replaces the pages from `address` to `end` with zeros.
#[expect(unsafe_code, reason = "replacing a part of a map; see the comment inside")]
fn put_zeros(address: usize, end: usize) -> bool {
    let page = PAGE.load(Ordering::Relaxed);
    let start = address & !(page - 1);
    let length = end.next_multiple_of(page) - start;
    // SAFETY: the range is inside one of our maps, whose size does not change and which stays
    // readable and read-only; the thread that reads it waits in this handler.
    let mapped = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_ANONYMOUS;
        libc::mmap(start as *mut _, length, libc::PROT_READ, flags, -1, 0)
    };
    mapped != libc::MAP_FAILED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_several_shrinking_files() {
        for _ in 0..3 {
            let file = tempfile::tempfile().unwrap();
            file.set_len(1 << 20).unwrap();
            let mapped = Mapped::new(&file, &MmapOptions::new()).unwrap();
            file.set_len(0).unwrap();
            assert!(mapped.iter().all(|byte| *byte == 0));
            assert!(mapped.unchanged().is_err());
        }
    }

    #[test]
    fn survives_a_file_that_shrinks_while_it_is_mapped() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 100], 0).unwrap();
        let mapped = Mapped::new(&file, &MmapOptions::new()).unwrap();
        assert!(mapped.unchanged().is_ok());
        file.set_len(100).unwrap();
        // The rest of the page is still readable; all other pages are gone.
        assert_eq!(mapped.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 700);
        assert!(mapped.slot.torn.load(Ordering::Relaxed));
        assert!(
            mapped.unchanged().unwrap_err().to_string().contains("changed while it was being read")
        );
        drop(mapped);
        // A new map of the complete file, in the same slot.
        let mapped = Mapped::new(&file, &MmapOptions::new()).unwrap();
        assert!(mapped.unchanged().is_ok());
        file.set_len(99).unwrap();
        assert!(mapped.unchanged().is_err(), "no page is missing, but the length differs");
    }
}
