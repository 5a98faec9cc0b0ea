//! Prepared sources, patches and the offline audit, with small generated sources and the real
//! rpmbuild, patch and git.

mod audit;
mod commits;
mod demo;
mod dist_git;
mod moving;
mod patches;
mod refresh;
mod unpack;
