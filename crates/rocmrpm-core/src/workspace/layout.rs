//! What the files of a workspace are called, and how large one may be.

/// The file that makes a folder a workspace.
pub const MANIFEST: &str = "rocmrpm.toml";

/// What the stack knows about upstream projects; optional.
pub const UPSTREAMS: &str = "upstreams.toml";

/// The folder below `specs-templates/` of what `rocmrpm closure --write` writes.
pub const GENERATED: &str = "generated";

/// The file beside them that the component's own spec is rendered with.
pub const CLOSURE_FILE: &str = "closure.toml";

/// What the names of the pin sets that it writes end with, before `.toml`.
pub const GENERATED_PINS: &str = ".generated";

/// How large a file may be that is read. The largest real ones are package tables, of 5 MB.
pub(super) const MAX_FILE: u64 = 64 << 20;
