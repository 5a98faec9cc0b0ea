//! Creates RPMs and wheels for tests.

use std::io::Read;
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use rocmrpm::events::Silent;
use rocmrpm::gpu::GpuTarget;
use rocmrpm::wheel::{self, LocalLabel, Pins, Request, Rocm, Wheel, WheelError};

pub(crate) const LIB: &str = "/usr/lib/python3.14/site-packages";
pub(crate) const LIB64: &str = "/usr/lib64/python3.14/site-packages";
pub(crate) const EPOCH: i64 = 1_700_000_000;

/// An RPM under construction.
pub(crate) struct Package {
    name: String,
    arch: &'static str,
    builder: rpm::PackageBuilder,
}

impl Package {
    pub(crate) fn new(name: &str, arch: &'static str) -> Self {
        let mut builder = rpm::PackageBuilder::new(name, "1.0", "MIT", arch, "a demo");
        builder.release("1.fc43");
        Self { name: name.to_owned(), arch, builder }
    }

    /// Creates a pure distribution with dist-info and a module.
    pub(crate) fn pure(name: &str, distribution: &str) -> Self {
        let dist_info = format!("{LIB}/{distribution}-1.0.dist-info");
        Self::new(name, "noarch")
            .file(&format!("{dist_info}/METADATA"), metadata(distribution, "1.0"))
            .file(&format!("{dist_info}/WHEEL"), "Wheel-Version: 1.0\nTag: py3-none-any\n")
            .file(&format!("{dist_info}/INSTALLER"), "rpm\n")
            .file(
                &format!("{LIB}/{distribution}/__init__.py"),
                "def main():\n    print('it runs')\n",
            )
    }

    pub(crate) fn file(self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.with(rpm::FileOptions::new(path).permissions(0o644), content)
    }

    pub(crate) fn program(self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.with(rpm::FileOptions::new(path).permissions(0o755), content)
    }

    pub(crate) fn with(
        mut self,
        options: impl Into<rpm::FileOptions>,
        content: impl Into<Vec<u8>>,
    ) -> Self {
        self.builder.with_file_contents(content, options).unwrap();
        self
    }

    pub(crate) fn link(mut self, path: &str, target: &str) -> Self {
        self.builder.with_symlink(rpm::FileOptions::symlink(path, target)).unwrap();
        self
    }

    /// Keeps the payload uncompressed so that tests can find it in the file.
    pub(crate) fn uncompressed(mut self) -> Self {
        self.builder
            .using_config(rpm::BuildConfig::default().compression(rpm::CompressionType::None));
        self
    }

    pub(crate) fn write(mut self, dir: &Path) -> PathBuf {
        let path = dir.join(format!("{}-1.0-1.fc43.{}.rpm", self.name, self.arch));
        self.builder.build().unwrap().write_file(&path).unwrap();
        path
    }
}

pub(crate) fn metadata(name: &str, version: &str) -> String {
    format!(
        "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: >=3.8\n\n# {name}\n"
    )
}

/// Returns a minimal ELF header with this `e_machine`.
pub(crate) fn elf(machine: u16) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes
}

pub(crate) const X86_64: u16 = 62;
pub(crate) const AMDGPU: u16 = 224;

pub(crate) fn label() -> LocalLabel {
    LocalLabel::new("7.14", &[GpuTarget::parse("gfx1151").unwrap()]).unwrap()
}

pub(crate) fn build(rpms: &[PathBuf], out_dir: &Path) -> Result<Vec<Wheel>, WheelError> {
    build_for(&Rocm::System, rpms, out_dir)
}

pub(crate) fn build_for(
    rocm: &Rocm,
    rpms: &[PathBuf],
    out_dir: &Path,
) -> Result<Vec<Wheel>, WheelError> {
    wheel::build(Request {
        rpms,
        label: &label(),
        source_date_epoch: EPOCH,
        out_dir,
        python: None,
        pins: &Pins::new(),
        rocm,
        leave_out: &[],
        not_required: &[],
        origin: None,
        events: &Silent,
    })
}

pub(crate) fn one(rpms: &[PathBuf], out_dir: &Path) -> Wheel {
    let mut wheels = build(rpms, out_dir).unwrap();
    assert_eq!(wheels.len(), 1);
    let wheel = wheels.remove(0);
    assert_eq!(wheel::read(&wheel.path).unwrap(), wheel, "the wheel that was read back differs");
    wheel
}

/// Returns the members of a wheel with their contents, in archive order.
pub(crate) fn members(wheel: &Path) -> Vec<(String, Vec<u8>)> {
    let mut archive = zip::ZipArchive::new(std::fs::File::open(wheel).unwrap()).unwrap();
    let mut members = Vec::new();
    for at in 0..archive.len() {
        let mut member = archive.by_index(at).unwrap();
        let mut content = Vec::new();
        member.read_to_end(&mut content).unwrap();
        members.push((String::from_utf8(member.name_raw().to_vec()).unwrap(), content));
    }
    members
}

pub(crate) fn names(wheel: &Path) -> Vec<String> {
    members(wheel).into_iter().map(|(name, _)| name).collect()
}

pub(crate) fn text(wheel: &Path, name: &str) -> String {
    let found = members(wheel).into_iter().find(|(member, _)| member == name);
    String::from_utf8(found.unwrap_or_else(|| panic!("no {name}")).1).unwrap()
}

/// Creates a distribution as packaged by Fedora's macros, including files that wheels omit.
pub(crate) fn rich(dir: &Path) -> PathBuf {
    let info = format!("{LIB}/Demo_Tool-1.0.dist-info");
    Package::new("python3-demo-tool", "noarch")
        .file(
            &format!("{info}/METADATA"),
            "Metadata-Version: 2.1\r\nName: Demo.Tool\r\nVersion: 1.0\r\n\r\nVersion: 1.0\r\n",
        )
        .file(
            &format!("{info}/WHEEL"),
            "Wheel-Version: 1.0\nTag: py2-none-any\nTag: py3-none-any\n",
        )
        .file(&format!("{info}/INSTALLER"), "rpm\n")
        .file(&format!("{info}/RECORD"), "stale,,\n")
        .file(&format!("{info}/direct_url.json"), "{}\n")
        .file(&format!("{info}/licenses/LICENSE"), "MIT\n")
        .file(
            &format!("{info}/entry_points.txt"),
            "[console_scripts]\ndemo-tool = demo_tool:main\n",
        )
        .file(&format!("{LIB}/demo_tool/__init__.py"), "def main():\n    print('it runs')\n")
        .file(&format!("{LIB}/demo_tool/a, \"b\".txt"), "odd name\n")
        .file(&format!("{LIB}/demo_tool/__pycache__/__init__.cpython-314.pyc"), "compiled")
        .link(&format!("{LIB}/demo_tool/copy.txt"), "../../../../share/demo-tool/data.txt")
        .link(&format!("{LIB}/demo_tool/all"), "/usr/share/demo-tool")
        .program(
            "/usr/bin/demo-tool",
            "#!/usr/bin/python3 -sP\nraise SystemExit('the copied script ran')\n",
        )
        .link("/usr/bin/demo-tool-3", "demo-tool")
        .program(
            "/usr/bin/demo-extra",
            "#!/usr/bin/python3 -sP\nimport demo_tool, sys\nprint('extra', sys.prefix)\n",
        )
        .program("/usr/bin/demo-shell", "#!/bin/sh\necho shell\n")
        .file("/usr/share/demo-tool/data.txt", "data\n")
        .file("/usr/share/doc/python3-demo-tool/README.md", "read me\n")
        .file("/usr/share/licenses/python3-demo-tool/LICENSE", "MIT\n")
        .file("/usr/share/man/man1/demo-tool.1.gz", "manual")
        .write(dir)
}

pub(crate) fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    for at in 0..bytes.len() - from.len() {
        if &bytes[at..at + from.len()] == from {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    }
}

impl Package {
    /// Declares a requirement on a package.
    pub(crate) fn requires(mut self, name: &str) -> Self {
        self.builder.requires(rpm::Dependency::any(name));
        self
    }

    /// Declares a bundled dependency.
    pub(crate) fn bundles(mut self, what: &str, version: &str) -> Self {
        self.builder.provides(rpm::Dependency::eq(format!("bundled({what})"), version));
        self
    }
}
/// A folder for compiling small libraries for this machine.
pub(crate) struct Compiler(pub(crate) tempfile::TempDir);

impl Compiler {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Compiles a shared library from C and returns its bytes. It stays in the folder so that
    /// others can link it (`-l:NAME`).
    pub(crate) fn library(&self, name: &str, source: &str, flags: &str) -> Vec<u8> {
        std::fs::write(self.0.path().join("source.c"), source).unwrap();
        let fixed = [
            "-shared",
            "-fPIC",
            "-nostartfiles",
            "-L.",
            "-Wl,--no-as-needed",
            "-o",
            name,
            "source.c",
        ];
        rocmrpm::process::Command::new("cc")
            .args(fixed)
            .args(flags.split_whitespace())
            .cwd(self.0.path())
            .output()
            .unwrap_or_else(|error| panic!("{name}: {error} (Debian packages: gcc libc6-dev)"));
        std::fs::read(self.0.path().join(name)).unwrap()
    }
}

/// Creates a distribution with these files in site-packages and these requirements in its METADATA.
pub(crate) fn compiled(name: &str, requires: &str, tag: &str, files: &[(&str, &[u8])]) -> Package {
    let info = format!("{LIB64}/{name}-1.0.dist-info");
    let package = Package::new(name, "x86_64")
        .file(
            &format!("{info}/METADATA"),
            metadata(name, "1.0").replace("\n\n", &format!("\n{requires}\n")),
        )
        .file(&format!("{info}/WHEEL"), format!("Wheel-Version: 1.0\nTag: {tag}\n"));
    files.iter().fold(package, |package, (path, content)| {
        package.file(&format!("{LIB64}/{path}"), *content)
    })
}

/// Writes a wheel with these members and a valid RECORD.
pub(crate) fn write_wheel(path: &Path, dist_info: &str, members: &[(String, String)]) -> PathBuf {
    use std::io::Write;
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    let mut record = String::new();
    for (name, content) in members {
        archive.start_file(name, options).unwrap();
        archive.write_all(content.as_bytes()).unwrap();
        let digest = rocmrpm::digest::Sha256::of_bytes(content);
        record += &format!(
            "{name},sha256={},{}\n",
            BASE64_URL_SAFE_NO_PAD.encode(digest.as_bytes()),
            content.len()
        );
    }
    archive.start_file(format!("{dist_info}/RECORD"), options).unwrap();
    writeln!(archive, "{record}{dist_info}/RECORD,,").unwrap();
    archive.finish().unwrap();
    path.to_owned()
}

/// Creates RPMs of three distributions for this machine's Python, `python`: an extension module
/// that requires a distribution with an unusual spelling, which requires a third.
pub(crate) fn stack(dir: &Path, python: &str) -> Vec<PathBuf> {
    let digits = python.replace('.', "");
    let describe = |name: &str, version: &str, requires: &str| {
        format!(
            "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: a demo\n\
             Description-Content-Type: text/markdown\nRequires-Python: >=3.8\n{requires}\n# {name}\n\nIt runs.\n"
        )
    };
    let pure = |rpm: &str, name: &str, version: &str, requires: &str| {
        let module = name.to_lowercase();
        let info = format!("/usr/lib/python{python}/site-packages/{module}-{version}.dist-info");
        Package::new(rpm, "noarch")
            .file(&format!("{info}/METADATA"), describe(name, version, requires))
            .file(&format!("{info}/WHEEL"), "Wheel-Version: 1.0\nTag: py3-none-any\n")
            .file(
                &format!("/usr/lib/python{python}/site-packages/{module}/__init__.py"),
                format!("name = '{name}'\n"),
            )
            .write(dir)
    };
    // A real extension of the standard library; its location does not matter.
    let extension = format!("_queue.cpython-{digits}-x86_64-linux-gnu.so");
    let folders = ["/usr/lib", "/usr/lib64"]
        .map(|lib| format!("{lib}/python{python}/lib-dynload/{extension}"));
    let content = folders.iter().find_map(|path| std::fs::read(path).ok());
    let content = content
        .unwrap_or_else(|| panic!("none of {folders:?}: it is in the distribution's python3"));
    let site = format!("/usr/lib64/python{python}/site-packages");
    let native = Package::new("python3-demo-ext", "x86_64")
        .file(
            &format!("{site}/demo_ext-2.0.dist-info/METADATA"),
            describe("demo-ext", "2.0", "Requires-Dist: flash_attn==2.8.3\n"),
        )
        .file(
            &format!("{site}/demo_ext-2.0.dist-info/WHEEL"),
            format!("Wheel-Version: 1.0\nTag: cp{digits}-cp{digits}-linux_x86_64\n"),
        )
        .file(&format!("{site}/demo_ext/__init__.py"), "from demo_ext._queue import SimpleQueue\n")
        .program(&format!("{site}/demo_ext/{extension}"), content)
        .write(dir);
    vec![
        native,
        pure("python3-flash-attn", "Flash_Attn", "2.8.3", "Requires-Dist: einops>=0.6\n"),
        pure("python3-einops", "einops", "0.8.1", ""),
    ]
}

/// Creates a labeled pure wheel of ours with these requirements.
pub(crate) fn requiring(dir: &Path, name: &str, requires: &[&str]) -> PathBuf {
    let lines: String = requires.iter().map(|need| format!("Requires-Dist: {need}\n")).collect();
    let module = name.replace('-', "_");
    let info = format!("{LIB}/{module}-1.0.dist-info");
    let rpm = Package::new(&format!("python3-{name}"), "noarch")
        .file(
            &format!("{info}/METADATA"),
            metadata(name, "1.0").replace("\n\n", &format!("\n{lines}Provides-Extra: gpu\n\n")),
        )
        .file(&format!("{info}/WHEEL"), "Wheel-Version: 1.0\nTag: py3-none-any\n")
        .file(&format!("{LIB}/{module}/__init__.py"), "ours = True\n")
        .write(dir);
    one(&[rpm], &dir.join("out")).path
}

/// Creates an external index in a folder with plain pure wheels, given as name, version and
/// requirements.
pub(crate) fn outside(root: &Path, wheels: &[(&str, &str, &[&str])]) -> String {
    for (name, version, requires) in wheels {
        let module = name.replace('-', "_");
        let file = format!("{module}-{version}-py3-none-any.whl");
        let folder = root.join("simple").join(name);
        fs_err::create_dir_all(&folder).unwrap();
        let mut zip =
            zip::ZipWriter::new(fs_err::File::create(folder.join(&file)).unwrap().into_parts().0);
        let info = format!("{module}-{version}.dist-info");
        let lines: String =
            requires.iter().map(|need| format!("Requires-Dist: {need}\n")).collect();
        let record =
            format!("{module}/__init__.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n");
        for (member, content) in [
            (format!("{module}/__init__.py"), "ours = False\n".to_owned()),
            (
                format!("{info}/METADATA"),
                metadata(name, version).replace("\n\n", &format!("\n{lines}\n")),
            ),
            (
                format!("{info}/WHEEL"),
                "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
                    .into(),
            ),
            (format!("{info}/RECORD"), record),
        ] {
            zip.start_file(member, zip::write::SimpleFileOptions::default()).unwrap();
            std::io::Write::write_all(&mut zip, content.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
        let digest = rocmrpm::digest::Sha256::of_file(&folder.join(&file)).unwrap().0;
        let page = folder.join("index.html");
        let old = std::fs::read_to_string(&page).unwrap_or_else(|_| "<!DOCTYPE html>\n".into());
        fs_err::write(&page, format!("{old}<a href=\"{file}#sha256={digest}\">{file}</a>\n"))
            .unwrap();
    }
    format!("file://{}/simple", root.display())
}
