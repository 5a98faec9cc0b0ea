//! Work on pin sets as a whole: what follows from upstream's files, and what contradicts
//! them. Reading a set is `workspace`'s business, fetching sources is `sources`'.

pub mod check;
pub mod compat;
pub mod derive;
pub mod upstream;
