//! A folder in which a release of clang builds libraries with GPU code. Does not need ROCm: the
//! kernels only use builtins, and libamdhip64 is a stub.

use std::path::PathBuf;

use rocmrpm::process::Command;

const KERNEL: &str = r#"
#define __global__ __attribute__((global))
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
extern "C" int __hipPushCallConfiguration(dim3, dim3, unsigned long = 0, void * = 0);
extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, unsigned long *, void *);
#ifndef STUB
#define STUB 0
#endif
#if STUB
__global__ void NAME(float *values) {}
__global__ void NAME_too(float *values) {}
#else
__global__ void NAME(float *values) { values[__builtin_amdgcn_workitem_id_x()] *= 2.0f; }
__global__ void NAME_too(float *values) { values[__builtin_amdgcn_workitem_id_x()] += 1.0f; }
#endif
extern "C" void run_NAME(float *values) { NAME<<<dim3{1, 1, 1}, dim3{64, 1, 1}>>>(values); }
extern "C" void run_NAME_too(float *values) { NAME_too<<<dim3{1, 1, 1}, dim3{64, 1, 1}>>>(values); }
"#;

/// The source of a libamdhip64 that defines what kernels are linked to.
pub const STUB: &str = "
int hipLaunchKernel(void) { return 0; }
int __hipPushCallConfiguration(void) { return 0; }
int __hipPopCallConfiguration(void) { return 0; }
int __hipRegisterFatBinary(void) { return 0; }
int __hipRegisterFunction(void) { return 0; }
int __hipUnregisterFatBinary(void) { return 0; }
";

/// A folder in which one release of clang compiles.
pub struct ClangFixture {
    dir: tempfile::TempDir,
    clang: &'static str,
}

impl ClangFixture {
    pub fn new(clang: &'static str) -> Self {
        let fixture = Self { dir: tempfile::tempdir().unwrap(), clang };
        fs_err::write(fixture.path("stub.c"), STUB).unwrap();
        fixture.run("clang", "-shared -fPIC -nostdlib -fuse-ld=lld stub.c -o libamdhip64.so.7");
        fixture
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs one of LLVM's tools of this release.
    pub fn run(&self, tool: &str, args: &str) -> String {
        self.run_with(tool, args, &[])
    }

    fn run_with(&self, tool: &str, args: &str, env: &[(&str, &str)]) -> String {
        let clang = self.clang;
        let args = args.replace("-fuse-ld=lld", &format!("-fuse-ld=lld-{clang}"));
        let mut command = Command::new(format!("{tool}-{clang}")).cwd(self.dir.path());
        command = command.args(args.split_whitespace());
        for (name, value) in env {
            command = command.env(*name, *value);
        }
        let line = command.line();
        command.text().unwrap_or_else(|error| {
            panic!("{line}: {error} (Debian packages: clang-{clang} lld-{clang} clang-tools-{clang} llvm-{clang})")
        })
    }

    /// Compiles two kernels named after `name` to the file `output`.
    pub fn compile(&self, name: &str, flags: &str, output: &str, env: &[(&str, &str)]) {
        fs_err::write(self.path(&format!("{name}.hip")), KERNEL.replace("NAME", name)).unwrap();
        let args =
            format!("-x hip -nogpulib -nogpuinc -fPIC -O1 -c {name}.hip -o {output} {flags}");
        self.run_with("clang++", &args, env);
    }

    pub fn link(&self, args: &str) {
        self.run(
            "clang++",
            &format!("-shared -nostdlib -fuse-ld=lld -L. -l:libamdhip64.so.7 {args}"),
        );
    }
}
