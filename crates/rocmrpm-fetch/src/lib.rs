//! Fetches files by curl into a cache that is addressed by content, and reads the pages of Python
//! package indexes. It does not know pins, git or workspaces: which file is fetched, and what it must
//! be, is up to the caller.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod archive;
pub mod cache;
pub mod curl;
pub mod download;
mod error;
mod html;
pub mod index;
pub mod limits;
pub mod pip;
pub mod simple;
pub mod url;

pub use cache::Cache;
pub use curl::{curl, download_plain};
pub use error::{NETWORK_HELP, SourceError};
pub use index::{ProjectFile, Sdist, version_of_sdist};
pub use pip::{as_url, pip_index};
pub use simple::{files_of_page, path_of_url, project_files};
pub use url::{is_unprotected, last_segment as last_url_segment, password, shown as shown_url};
