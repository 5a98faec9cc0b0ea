//! A static package index of wheels (PEP 503 and 691), written so that a reader never
//! sees half of it. Not which wheels belong in it.

pub mod change;
mod entry;
mod error;
pub mod folder;
mod local;
mod order;
pub mod page;
pub mod place;
mod rules;
pub mod serve;
pub mod view;

pub use error::IndexError;
pub use local::{Written, write, write_tracking};
