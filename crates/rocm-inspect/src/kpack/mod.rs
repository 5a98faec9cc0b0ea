//! kpack: GPU code that was moved from host files into archives. Reads archives and references to
//! them; the rules check whether they match. Source of both formats: ROCm/rocm-systems,
//! `shared/kpack`.

mod archive;
mod msgpack;
mod reference;
mod table;

pub(super) use archive::{MAGIC, facts};
pub(super) use reference::read as reference;
