//! kpack: GPU code that was moved out of host files into archives. What an archive
//! and a reference to one say; whether they fit each other is the rules' business.
//! Source of both formats: ROCm/rocm-systems, `shared/kpack`.

mod archive;
mod msgpack;
mod reference;
mod table;

pub(super) use archive::{MAGIC, facts};
pub(super) use reference::read as reference;
