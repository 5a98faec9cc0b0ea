//! The entry for fuzzing: sets search paths of untrusted ELF files.

use python_packaging::wheel::Spool;
use python_packaging::wheel::search_path::{self, edits};

/// Sets a short and a long search path of a file. Returns whether it has room for one.
///
/// # Panics
///
/// If an edit reaches beyond the file.
pub fn search_path(bytes: &[u8]) -> bool {
    let spool = Spool::new(&std::env::temp_dir());
    let Ok((mut spool, stored)) =
        spool.and_then(|mut spool| spool.append(bytes, false).map(|stored| (spool, stored)))
    else {
        return false;
    };
    let Ok(Some((facts, _))) = spool.linkage(&stored) else { return false };
    let texts = ["$ORIGIN", "$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../lib"];
    let all = texts.map(|text| edits(&spool, stored, &facts, text).ok().flatten());
    let found = all.iter().any(Option::is_some);
    for edits in all.into_iter().flatten() {
        search_path::apply(&mut spool, stored, &edits).expect("edits are inside of the file");
    }
    found
}
