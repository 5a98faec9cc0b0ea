//! Makes the executables that stand for links to programs, which a wheel cannot contain. A stub
//! replaces itself by the program at a path relative to its own folder, and keeps `argv[0]`, as
//! running a link does: `clang++` and `ld.lld` choose what they do by it.
//!
//! Sources: gABI, chapters 4 and 5 (the headers); Linux, `arch/x86/entry/syscalls/syscall_64.tbl`;
//! System V ABI, AMD64 supplement, 3.4.1 (the stack of a new process).

/// The address at which the stub is loaded.
const BASE: u64 = 0x40_0000;
/// The sizes of `Elf64_Ehdr` and of two `Elf64_Phdr`.
const HEADERS: u64 = 64 + 2 * 56;
/// The longest path in bytes, as for the system calls.
pub(super) const MAX_TARGET: usize = 2048;

/// The code, with the assembly of each part in Intel's syntax.
#[rustfmt::skip]
const CODE: &[u8] = &[
    // mov rbx, rsp; sub rsp, 8192
    0x48, 0x89, 0xe3, 0x48, 0x81, 0xec, 0x00, 0x20, 0x00, 0x00,
    // readlink("/proc/self/exe", rsp, 4095)
    // lea rdi, [rip+self]; mov rsi, rsp; mov edx, 4095; mov eax, 89; syscall
    0x48, 0x8d, 0x3d, 0x77, 0x00, 0x00, 0x00, 0x48, 0x89, 0xe6, 0xba, 0xff, 0x0f, 0x00, 0x00,
    0xb8, 0x59, 0x00, 0x00, 0x00, 0x0f, 0x05,
    // test rax, rax; jle fail; lea rcx, [rsp+rax]
    0x48, 0x85, 0xc0, 0x7e, 0x3f, 0x48, 0x8d, 0x0c, 0x04,
    // back: dec rcx; cmp rcx, rsp; jb fail; cmp byte ptr [rcx], '/'; jne back; inc rcx
    0x48, 0xff, 0xc9, 0x48, 0x39, 0xe1, 0x72, 0x33, 0x80, 0x39, 0x2f, 0x75, 0xf3,
    0x48, 0xff, 0xc1,
    // lea rsi, [rip+target]
    0x48, 0x8d, 0x35, 0x83, 0x00, 0x00, 0x00,
    // copy: mov al, [rsi]; mov [rcx], al; inc rsi; inc rcx; test al, al; jne copy
    0x8a, 0x06, 0x88, 0x01, 0x48, 0xff, 0xc6, 0x48, 0xff, 0xc1, 0x84, 0xc0, 0x75, 0xf2,
    // execve(rsp, argv, envp)
    // mov rdi, rsp; lea rsi, [rbx+8]; mov rax, [rbx]; lea rdx, [rbx+rax*8+16]; mov eax, 59; syscall
    0x48, 0x89, 0xe7, 0x48, 0x8d, 0x73, 0x08, 0x48, 0x8b, 0x03, 0x48, 0x8d, 0x54, 0xc3, 0x10,
    0xb8, 0x3b, 0x00, 0x00, 0x00, 0x0f, 0x05,
    // fail: write(2, message, 44)
    // mov edi, 2; lea rsi, [rip+message]; mov edx, 44; mov eax, 1; syscall
    0xbf, 0x02, 0x00, 0x00, 0x00, 0x48, 0x8d, 0x35, 0x27, 0x00, 0x00, 0x00,
    0xba, 0x2c, 0x00, 0x00, 0x00, 0xb8, 0x01, 0x00, 0x00, 0x00, 0x0f, 0x05,
    // exit(127)
    // mov edi, 127; mov eax, 60; syscall
    0xbf, 0x7f, 0x00, 0x00, 0x00, 0xb8, 0x3c, 0x00, 0x00, 0x00, 0x0f, 0x05,
];
const SELF: &[u8] = b"/proc/self/exe\0";
const MESSAGE: &[u8] = b"cannot run the program that this stands for\n";

/// Returns an x86-64 executable that runs the program at `target`, relative to its own folder.
pub(super) fn stub(target: &str) -> Vec<u8> {
    let code: Vec<u8> = [CODE, SELF, MESSAGE, target.as_bytes(), b"\0"].concat();
    let size = HEADERS + code.len() as u64;
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    // ET_EXEC, EM_X86_64
    put_16(&mut bytes, &[2, 62]);
    put_32(&mut bytes, &[1]);
    // The entry point; the program headers follow this header, and there are no sections.
    put_64(&mut bytes, &[BASE + HEADERS, 64, 0]);
    put_32(&mut bytes, &[0]);
    put_16(&mut bytes, &[64, 56, 2, 64, 0, 0]);
    // PT_LOAD, PF_R | PF_X
    put_32(&mut bytes, &[1, 5]);
    put_64(&mut bytes, &[0, BASE, BASE, size, size, 4096]);
    // PT_GNU_STACK, PF_R | PF_W
    put_32(&mut bytes, &[0x6474_e551, 6]);
    put_64(&mut bytes, &[0, 0, 0, 0, 0, 16]);
    bytes.extend(code);
    bytes
}

fn put_16(bytes: &mut Vec<u8>, values: &[u16]) {
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn put_32(bytes: &mut Vec<u8>, values: &[u32]) {
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn put_64(bytes: &mut Vec<u8>, values: &[u64]) {
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn runs_the_target_with_the_name_of_the_link() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("real/show");
        fs_err::create_dir_all(dir.path().join("real")).unwrap();
        fs_err::create_dir_all(dir.path().join("bin")).unwrap();
        // A copy of the shell: a script would not show `argv[0]`.
        fs_err::copy("/bin/sh", &script).unwrap();
        let link = dir.path().join("bin/name");
        fs_err::write(&link, stub("../real/show")).unwrap();
        fs_err::set_permissions(&link, PermissionsExt::from_mode(0o755)).unwrap();
        let run = |link: &std::path::Path| {
            Command::new(link)
                .args(["-c", "cat /proc/$$/cmdline | tr '\\0' ' '; echo $X; readlink /proc/$$/exe"])
                .env("X", "environment")
                .output()
                .unwrap()
        };
        let output = run(&link);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with(&format!("{} -c ", link.display())), "{text}");
        assert!(text.contains("environment\n") && text.contains("/real/show\n"), "{text}");
        fs_err::remove_file(&script).unwrap();
        let output = run(&link);
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(127), MESSAGE));
    }

    #[test]
    fn inspection_accepts_a_stub() {
        let facts = rocm_inspect::linkage_in(&stub("../a/b")).unwrap();
        assert!(facts.1);
        assert_eq!(facts.0.header_faults, []);
    }
}
