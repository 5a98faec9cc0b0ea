//! Fetches files with curl into a content-addressed cache, and reads the pages of Python package
//! indexes. It does not know pins, git or workspaces: the caller decides which file to fetch and
//! what to expect of it.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod archive;
pub mod cache;
mod cache_usage;
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
pub use cache_usage::CacheEntry;
pub use curl::{curl, download_plain};
pub use error::{NETWORK_HELP, SourceError};
pub use html::links_of_page;
pub use index::{ProjectFile, Sdist, version_of_sdist};
pub use pip::{as_url, pip_index};
pub use simple::{files_of_page, path_of_url, project_files};
pub use url::{is_unprotected, last_segment as last_url_segment, password, shown as shown_url};
