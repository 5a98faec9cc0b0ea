//! The names of a workspace's files, and their size limit.

/// The file that marks a folder as a workspace.
pub const MANIFEST: &str = "rocmrpm.toml";

/// What the stack knows about upstream projects; optional.
pub const UPSTREAMS: &str = "upstreams.toml";

/// How `rocmrpm pipeline` keeps the stack current; optional.
pub const PIPELINE: &str = "pipeline.toml";

/// The upstream issues, pull requests, and releases to watch; optional.
pub const WATCH: &str = "watch.toml";

/// The folder below `specs-templates/` that `rocmrpm closure --write` writes to.
pub const GENERATED: &str = "generated";

/// The file in that folder with which the component's own spec is rendered.
pub const CLOSURE_FILE: &str = "closure.toml";

/// The end of the names of generated pin sets, before `.toml`.
pub const GENERATED_PINS: &str = ".generated";

/// The size limit of a file. The largest real ones are package tables of 5 MB.
pub(super) const MAX_FILE: u64 = 64 << 20;
