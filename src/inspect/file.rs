//! What one file holds: which readers its bytes are given to, and how their
//! results come together. Where the bytes come from is not known here.

use super::code_object::EM_AMDGPU;
use super::device::Device;
use super::elf;
use super::facts::{FileFacts, Storage};
use super::report::Depth;

/// Gathers what one interesting file of `size` bytes holds. `bytes` is all of it, or
/// nothing where its name alone tells.
pub(super) fn facts(path: String, size: u64, bytes: &[u8], depth: Depth) -> FileFacts {
    let _ = depth;
    let mut device = Device::new(bytes);
    let host = bytes.starts_with(goblin::elf::header::ELFMAG).then(|| elf::read(bytes, depth));
    if host.is_none() || bytes.get(18..20) == Some(&EM_AMDGPU.to_le_bytes()) {
        device.whole_file();
    }
    let mut elf_facts = None;
    match host {
        Some(Ok(host)) => {
            device.damage.extend(host.damage);
            host.places.fatbins.into_iter().for_each(|range| device.walk(range, Storage::HipFatbin));
            if host.places.kpack_reference.is_some() {
                device.elsewhere(Storage::Kpack);
            }
            elf_facts = Some(host.facts);
        }
        Some(Err(damage)) => device.damage.push(damage),
        None => {}
    }
    let (bundles, device, damage, mismatches) = device.finish();
    FileFacts { path, size, elf: elf_facts, bundles, device, damage, mismatches, ..FileFacts::default() }
}
