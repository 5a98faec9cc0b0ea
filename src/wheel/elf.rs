//! What a wheel's tags depend on in an ELF file: the machine it is for, and
//! whether it uses Python's C API. Everything else is `inspect`'s business.

use std::io;

/// What was found in an ELF file for a processor that runs Python. Code objects
/// for GPUs are ELF files too, but data as far as a wheel's tags go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Elf {
    /// The architecture, as `uname -m` names it.
    pub arch: &'static str,
    /// Whether its dynamic symbols include Python's C API.
    pub uses_python: bool,
}

/// `e_machine` values (System V ABI) of the architectures that have Python wheels.
const MACHINES: [(u16, &str); 6] =
    [(3, "i686"), (21, "ppc64le"), (22, "s390x"), (62, "x86_64"), (183, "aarch64"), (243, "riscv64")];
const SHT_DYNSYM: u32 = 11;

/// Looks into a file of `size` bytes that `read_at` reads from. `None` where it
/// is not an ELF file, or one for a GPU.
pub(super) fn look(
    size: u64,
    mut read_at: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<Option<Elf>> {
    let mut head = [0; 64];
    let length = fill(&mut read_at, 0, &mut head)?;
    if length < 20 || !head.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let machine = match head[5] {
        2 => u16::from_be_bytes([head[18], head[19]]),
        _ => u16::from_le_bytes([head[18], head[19]]),
    };
    let Some((_, arch)) = MACHINES.iter().find(|(number, _)| *number == machine) else {
        return Ok(None);
    };
    // Symbols are read where wheels with ROCm exist: 64 bits, little-endian.
    let strings = if length == 64 && head[4] == 2 && head[5] == 1 {
        dynamic_strings(&head, size, &mut read_at)?
    } else {
        None
    };
    let uses_python = match strings {
        Some((offset, length)) => names_python(offset, length, &mut read_at)?,
        None => false,
    };
    Ok(Some(Elf { arch, uses_python }))
}

/// Returns where the dynamic symbols' names are. Numbers that lead out of the
/// file are those of a damaged or stripped one, which has no names.
fn dynamic_strings(
    head: &[u8; 64],
    size: u64,
    read_at: &mut impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<Option<(u64, u64)>> {
    let table = u64_at(head, 0x28);
    let (entry, count) = (u16_at(head, 0x3a), u64::from(u16_at(head, 0x3c)));
    let mut section = |index: u64| -> io::Result<Option<[u8; 64]>> {
        let mut bytes = [0; 64];
        let Some(at) = table.checked_add(index * 64) else { return Ok(None) };
        Ok((index < count && fill(read_at, at, &mut bytes)? == 64).then_some(bytes))
    };
    if entry != 64 {
        return Ok(None);
    }
    for index in 0..count {
        let Some(header) = section(index)? else { return Ok(None) };
        if u32_at(&header, 4) == SHT_DYNSYM {
            let Some(strings) = section(u64::from(u32_at(&header, 40)))? else { return Ok(None) };
            let (offset, length) = (u64_at(&strings, 24), u64_at(&strings, 32));
            let inside = offset.checked_add(length).is_some_and(|end| end <= size);
            return Ok(inside.then_some((offset, length)));
        }
    }
    Ok(None)
}

/// Tells whether a string table has a name that Python reserves: `Py` or `_Py`
/// followed by a capital letter or `_`. C++ names are mangled and begin with `_Z`.
fn names_python(
    offset: u64,
    length: u64,
    read_at: &mut impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<bool> {
    const OVERLAP: u64 = 4;
    let mut buffer = vec![0; 1 << 16];
    let mut at = 0;
    while at < length {
        let want = buffer.len().min((length - at) as usize);
        let got = fill(read_at, offset + at, &mut buffer[..want])?;
        let reserved = |window: &[u8]| match window {
            [0, b'_', b'P', b'y', c] | [0, b'P', b'y', c, _] => c.is_ascii_uppercase() || *c == b'_',
            _ => false,
        };
        if buffer[..got].windows(5).any(reserved) {
            return Ok(true);
        }
        if got < want || got as u64 <= OVERLAP {
            return Ok(false);
        }
        at += got as u64 - if at + (got as u64) < length { OVERLAP } else { 0 };
    }
    Ok(false)
}

fn fill(
    read_at: &mut impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    at: u64,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match read_at(at.saturating_add(done as u64), &mut buffer[done..])? {
            0 => break,
            length => done += length,
        }
    }
    Ok(done)
}

fn u16_at(bytes: &[u8; 64], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8; 64], at: usize) -> u32 {
    (0..4).fold(0, |value, i| value | u32::from(bytes[at + i]) << (8 * i))
}

fn u64_at(bytes: &[u8; 64], at: usize) -> u64 {
    (0..8).fold(0, |value, i| value | u64::from(bytes[at + i]) << (8 * i))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_at(bytes: &[u8]) -> Option<Elf> {
        look(bytes.len() as u64, |at, buffer| {
            let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
            let length = buffer.len().min(bytes.len() - from);
            buffer[..length].copy_from_slice(&bytes[from..from + length]);
            Ok(length)
        })
        .unwrap()
    }

    /// An ELF file with a section table of a dynsym and its string table.
    fn elf(machine: u16, strings: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 64 + 3 * 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[18..20].copy_from_slice(&machine.to_le_bytes());
        file[0x28] = 64;
        file[0x3a] = 64;
        file[0x3c] = 3;
        file[128 + 4] = SHT_DYNSYM as u8;
        file[128 + 40] = 2;
        let offset = (file.len() as u64).to_le_bytes();
        file[192 + 24..192 + 32].copy_from_slice(&offset);
        file[192 + 32..192 + 40].copy_from_slice(&(strings.len() as u64).to_le_bytes());
        file.extend_from_slice(strings);
        file
    }

    #[test]
    fn pythons_names_are_found_anywhere_in_the_table() {
        let uses = |strings: &[u8]| look_at(&elf(62, strings)).unwrap().uses_python;
        assert!(uses(b"\0malloc\0PyInit_x\0"));
        assert!(uses(b"\0_Py_NoneStruct\0"));
        assert!(!uses(b"\0malloc\0Pystone\0_ZN2PyE\0CPy_x\0"));
        for padding in (1 << 16) - 8..(1 << 16) + 2 {
            let mut strings = vec![b'x'; padding];
            assert!(!uses(&strings));
            strings.extend_from_slice(b"\0PyList_New\0");
            assert!(uses(&strings), "{padding}");
        }
    }

    #[test]
    fn code_for_a_gpu_is_data() {
        assert_eq!(look_at(&elf(224, b"\0")), None);
        assert_eq!(look_at(b"#!/bin/sh\n# a script, long enough for a header\n"), None);
        assert_eq!(look_at(&elf(183, b"\0")).map(|elf| elf.arch), Some("aarch64"));
    }

    #[test]
    fn damage_is_no_error_and_no_hang() {
        let whole = elf(62, b"\0PyInit_x\0");
        for length in 0..whole.len() {
            look_at(&whole[..length]);
        }
        for at in 0..256 {
            let mut damaged = whole.clone();
            damaged[at] = 0xff;
            look_at(&damaged);
        }
    }
}
