//! Tests the inspection of real and synthetic files, by the library and by `rocmrpm inspect`.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../clang_fixture/mod.rs"]
mod clang_fixture;
mod elf_facts;
#[path = "../real_wheels/fetch.rs"]
mod fetch;
mod inspect_device;
mod inspect_fixtures;
mod inspect_kpack;
mod inspect_linkage;
mod inspect_places;
mod inspect_wheels;
#[path = "../real_wheels/llvm.rs"]
mod llvm;
#[path = "../real_wheels/offload.rs"]
mod offload;
#[path = "../real_wheels/readelf.rs"]
mod readelf;
mod rocm_sdk;
#[path = "../support/mod.rs"]
mod support;
