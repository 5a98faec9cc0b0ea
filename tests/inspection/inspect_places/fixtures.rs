//! Builds files with GPU code in every place and format using compilers and linkers, each with the
//! facts that LLVM's tools report: directly or, if LLVM does not find the bundles, for the file
//! that they were extracted from.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use md5::{Digest as _, Md5};

use crate::clang_fixture::ClangFixture;
use crate::llvm::llvm;
use crate::offload;

/// The code for one target, of one version, in one storage.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    pub target: String,
    pub storage: String,
    pub compression: String,
    pub version: Option<u8>,
    pub count: u64,
    pub bytes: u64,
    pub kernels: Option<u64>,
}

/// A file with its expected content at full depth, sorted.
pub struct Fixture {
    pub path: PathBuf,
    pub rows: Vec<Row>,
    pub bundles: u64,
}

/// Builds fixtures.
pub struct Workshop {
    pub fixture: ClangFixture,
    older: ClangFixture,
    pub made: Vec<Fixture>,
}

impl Workshop {
    /// Builds all fixtures.
    pub fn new() -> Self {
        let mut shop = Self {
            fixture: ClangFixture::new("22"),
            older: ClangFixture::new("19"),
            made: Vec::new(),
        };
        shop.libraries();
        shop.compressed();
        shop.units();
        shop.elsewhere();
        shop.bare();
        shop.large();
        shop
    }

    fn libraries(&mut self) {
        for (name, flags) in [
            ("one", "--offload-arch=gfx1151"),
            ("three", "--offload-arch=gfx1100 --offload-arch=gfx1151 --offload-arch=gfx90a:xnack-"),
            ("generic", "--offload-arch=gfx11-generic"),
            ("v4", "--offload-arch=gfx1151 -mcode-object-version=4"),
            ("v5", "--offload-arch=gfx1151 -mcode-object-version=5"),
            ("v6", "--offload-arch=gfx1151 -mcode-object-version=6"),
        ] {
            self.fixture.compile("twice", flags, "k.o", &[]);
            self.fixture.link(&format!("k.o -o {name}.so"));
            self.judged_by_llvm(self.fixture.path(&format!("{name}.so")));
        }
        for (name, flags) in [("rpath", "--disable-new-dtags"), ("runpath", "--enable-new-dtags")] {
            self.fixture.link(&format!("k.o -o {name}.so -Wl,{flags},-rpath,$ORIGIN/../lib"));
            self.judged_by_llvm(self.fixture.path(&format!("{name}.so")));
        }
        self.fixture.run("llvm-strip", "three.so -o stripped.so");
        self.judged_by_llvm(self.fixture.path("stripped.so"));
        // LLVM finds nothing without section headers.
        self.fixture.run("llvm-objcopy", "--strip-sections three.so nosections.so");
        self.as_in("three.so", "nosections.so", "hip-fatbin", "");
    }

    fn compressed(&mut self) {
        let flags = "--offload-arch=gfx1100 --offload-arch=gfx1151 --offload-compress";
        for (name, fixture) in [("ccob3.so", &self.fixture), ("ccob2.so", &self.older)] {
            fixture.compile("twice", flags, "k.o", &[]);
            fixture.compile("thrice", flags, "l.o", &[]);
            fixture.link(&format!("k.o l.o -o {name}"));
        }
        self.judged_by_llvm(self.fixture.path("ccob3.so"));
        self.judged_by_llvm(self.older.path("ccob2.so"));
        let plain = self.carved("three.so");
        for version in 1..=3 {
            for method in ["zlib", "zstd"] {
                let name = format!("ccob{version}-{method}");
                fs_err::write(self.fixture.path(&name), compress(&plain, version, method)).unwrap();
                self.included(&name, ".hip_fatbin,\"a\",@progbits", 4096, &format!("{name}.so"));
                match version {
                    // No tool of these releases writes it.
                    1 => self.as_in("three.so", &format!("{name}.so"), "hip-fatbin", &name),
                    _ => self.judged_by_llvm(self.fixture.path(&format!("{name}.so"))),
                }
            }
        }
    }

    fn units(&mut self) {
        let fixture = &self.fixture;
        fixture.compile("twice", "--offload-arch=gfx1151", "k.o", &[]);
        fixture.compile("thrice", "--offload-arch=gfx1100 --offload-arch=gfx1151", "l.o", &[]);
        fixture.compile("fourfold", "--offload-arch=gfx1201 --offload-compress", "m.o", &[]);
        fixture.link("k.o l.o -o units.so");
        fixture.link("k.o m.o l.o -o mixed.so");
        for driver in ["--no-offload-new-driver", "--offload-new-driver"] {
            let flags = format!("-fgpu-rdc {driver} --offload-arch=gfx1151 --offload-arch=gfx1100");
            fixture.compile("twice", &flags, "rdc1.o", &[]);
            fixture.compile("thrice", &flags, "rdc2.o", &[]);
            let output = format!("rdc{driver}.so");
            fixture.link(&format!("--hip-link -nogpulib {flags} rdc1.o rdc2.o -o {output}"));
        }
        let rows = ["gfx1100", "gfx1151"].map(|target| self.bitcode("rdc1.o", target)).into();
        self.made.push(Fixture { path: self.fixture.path("rdc1.o"), rows, bundles: 0 });
        for name in ["units.so", "rdc--no-offload-new-driver.so", "rdc--offload-new-driver.so"] {
            self.judged_by_llvm(self.fixture.path(name));
        }
        for object in ["k.o", "l.o", "m.o"] {
            self.judged_by_llvm(self.fixture.path(object));
        }
        self.fixture.run("llvm-ar", "rcs units.a k.o stub.c l.o m.o");
        // LLVM drops uncompressed bundles if both kinds follow each other.
        for (name, storage) in [("mixed.so", "hip-fatbin"), ("units.a", "static-archive")] {
            let fixture = self.all_of(&["k.o", "l.o", "m.o"], name, storage);
            self.made.push(fixture);
        }
    }

    /// Returns the facts for an object with device bitcode for a target.
    fn bitcode(&self, object: &str, target: &str) -> Row {
        let file = format!("{object}.{target}.bc");
        let image = format!("--image=file={file},arch={target},triple=amdgcn-amd-amdhsa");
        self.fixture.run("clang-offload-packager", &format!("{object} {image}"));
        Row {
            target: target.to_owned(),
            storage: "bitcode".to_owned(),
            compression: String::new(),
            version: None,
            count: 1,
            bytes: fs_err::metadata(self.fixture.path(&file)).unwrap().len(),
            kernels: None,
        }
    }

    fn elsewhere(&mut self) {
        let (plain, packed) = (self.carved("three.so"), self.carved("ccob3.so"));
        fs_err::write(self.fixture.path("plain"), plain).unwrap();
        fs_err::write(self.fixture.path("packed"), packed).unwrap();
        for (content, section, align, output) in [
            ("plain", ".rodata", 1, "rodata.so"),
            ("packed", ".rodata", 8, "rodata-ccob.so"),
            ("plain", ".data,\"aw\",@progbits", 4096, "data.so"),
            ("plain", ".others,\"a\",@progbits", 1, "others.so"),
        ] {
            self.included(content, section, align, output);
            let original = if content == "plain" { "three.so" } else { "ccob3.so" };
            let compression = if content == "plain" { "" } else { "ccob3-zstd" };
            self.as_in(original, output, "other-section", compression);
        }
        let fixture = &self.fixture;
        fixture.compile(
            "twice",
            "--offload-arch=gfx1151 --cuda-device-only --no-gpu-bundle-output",
            "k.hsaco",
            &[],
        );
        // The packager determines the kind from the name.
        fs_err::copy(fixture.path("k.hsaco"), fixture.path("object.o")).unwrap();
        fixture.run(
            "clang-offload-packager",
            "-o images --image=file=object.o,triple=amdgcn-amd-amdhsa,arch=gfx1151,kind=hip",
        );
        let ids = "host-x86_64-unknown-linux-gnu-,hip-amdgcn-amd-amdhsa--gfx1151";
        fixture.run("clang", "-c stub.c -o stub.o");
        fixture.run(
            "clang-offload-bundler",
            &format!("-type=o -targets={ids} -input=stub.o -input=k.hsaco -output=sections.o"),
        );
        let listed = fixture.run("clang-offload-bundler", "-type=o -list -input=sections.o");
        assert!(listed.contains("hip-amdgcn-amd-amdhsa--gfx1151"), "{listed}");
        self.included("k.hsaco", ".data,\"aw\",@progbits", 8, "handlers.so");
        self.included("images", ".llvm.offloading,\"a\",@llvm_offloading", 8, "images.so");
        let listed = self.fixture.run("llvm-objdump", "--offloading images.so");
        let facts = ["kind            elf", "arch            gfx1151"];
        assert!(
            facts.iter().all(|fact| listed.contains(fact)) && listed.matches("IMAGE").count() == 1
        );
        fs_err::write(
            self.fixture.path("text"),
            "__CLANG_OFFLOAD_BUNDLE__\0hipv4-amdgcn-amd-amdhsa--gfx1151\0CCOB\x02\0\x01\0\0\0\0\0\0\0",
        )
        .unwrap();
        self.included("text", ".rodata", 1, "text.so");
        let size = fs_err::metadata(self.fixture.path("k.hsaco")).unwrap().len();
        for (name, storage) in [
            ("handlers.so", "embedded"),
            ("images.so", "offload-binary"),
            ("images", "offload-binary"),
            ("sections.o", "other-section"),
            ("k.hsaco", "code-object"),
            ("text.so", ""),
        ] {
            let row = Row {
                target: "gfx1151".into(),
                storage: storage.into(),
                compression: String::new(),
                version: Some(6),
                count: 1,
                bytes: size,
                kernels: Some(2),
            };
            let rows = if storage.is_empty() { Vec::new() } else { vec![row] };
            self.made.push(Fixture { path: self.fixture.path(name), rows, bundles: 0 });
        }
        let header = self.fixture.run("llvm-readelf", "-hW --dyn-syms k.hsaco");
        assert!(header.contains("gfx1151") && header.matches(".kd\n").count() == 2, "{header}");
    }

    fn bare(&mut self) {
        for (from, name, compression) in
            [("three.so", "three.co", ""), ("ccob3.so", "two.co", "ccob3-zstd")]
        {
            fs_err::write(self.fixture.path(name), self.carved(from)).unwrap();
            self.as_in(from, name, "bundle", compression);
        }
    }

    /// Builds a library of more than 16 MiB, mostly machine code and code objects, so that a quick
    /// inspection of an archive skips much of it.
    fn large(&mut self) {
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let noise = std::iter::repeat_with(|| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as u8
        });
        fs_err::write(self.fixture.path("noise"), noise.take(900_000).collect::<Vec<_>>()).unwrap();
        // No compressor can make it smaller.
        let array =
            "__attribute__((device, used)) const unsigned char noise[] = {\n#embed \"noise\"\n};\n";
        fs_err::write(self.fixture.path("noise.h"), array).unwrap();
        let code = ".text\n.globl much\nmuch:\n.fill 17 << 20, 1, 0x90\n.section .note.GNU-stack\n";
        fs_err::write(self.fixture.path("much.s"), code).unwrap();
        let flags =
            "-include noise.h -Wno-c23-extensions --offload-arch=gfx1100 --offload-arch=gfx1151";
        self.fixture.compile("twice", flags, "plain.o", &[]);
        self.fixture.compile("thrice", &format!("{flags} --offload-compress"), "packed.o", &[]);
        // The array has the same name in both units.
        self.fixture.link("-Wl,-z,muldefs plain.o packed.o much.s -o large.so");
        assert!(fs_err::metadata(self.fixture.path("large.so")).unwrap().len() > 20 << 20);
        for object in ["plain.o", "packed.o"] {
            self.judged_by_llvm(self.fixture.path(object));
        }
        let large = self.all_of(&["plain.o", "packed.o"], "large.so", "hip-fatbin");
        self.made.push(large);
    }

    /// Adds a file whose GPU code is all in `.hip_fatbin`, with LLVM's facts.
    fn judged_by_llvm(&mut self, path: PathBuf) {
        let carved = carve(&path, &self.fixture.path("carved"));
        let file = fs_err::read(&path).unwrap();
        let start = memchr::memmem::find(&file, &carved).unwrap();
        let scratch = self.fixture.path("scratch");
        let range = start..start + carved.len();
        let (bundles, objects) = offload::objects(&path, Some(range), &scratch);
        let mut rows = BTreeMap::new();
        for object in objects {
            let key = (object.target().to_owned(), object.compression.clone(), object.version);
            let row = rows.entry(key).or_insert_with(|| Row {
                target: object.target().to_owned(),
                storage: "hip-fatbin".into(),
                compression: object.compression.clone(),
                version: Some(object.version),
                count: 0,
                bytes: 0,
                kernels: Some(0),
            });
            row.count += 1;
            row.bytes += object.size;
            row.kernels = row.kernels.map(|kernels| kernels + object.kernels);
        }
        let mut rows: Vec<_> = rows.into_values().collect();
        rows.sort();
        assert!(!rows.is_empty() && bundles > 0, "{}", path.display());
        self.made.push(Fixture { path, rows, bundles: bundles as u64 });
    }

    /// Adds the file `name`, which contains the code of `original`.
    fn as_in(&mut self, original: &str, name: &str, storage: &str, compression: &str) {
        let original = self.last(original);
        let row = |row: &Row| Row {
            storage: storage.to_owned(),
            compression: compression.to_owned(),
            ..row.clone()
        };
        let rows = original.rows.iter().map(row).collect();
        let fixture = Fixture { path: self.fixture.path(name), rows, bundles: original.bundles };
        self.made.push(fixture);
    }

    /// Returns a fixture for the file `name`, which contains the code of all `parts`.
    fn all_of(&self, parts: &[&str], name: &str, storage: &str) -> Fixture {
        let mut fixture = Fixture { path: self.fixture.path(name), rows: Vec::new(), bundles: 0 };
        for part in parts {
            let part = self.last(part);
            fixture.bundles += part.bundles;
            for row in &part.rows {
                let same = |other: &&mut Row| {
                    (&other.target, &other.compression, other.version)
                        == (&row.target, &row.compression, row.version)
                };
                match fixture.rows.iter_mut().find(same) {
                    Some(sum) => {
                        sum.count += row.count;
                        sum.bytes += row.bytes;
                        sum.kernels = sum.kernels.zip(row.kernels).map(|(a, b)| a + b);
                    }
                    None => fixture.rows.push(Row { storage: storage.to_owned(), ..row.clone() }),
                }
            }
        }
        fixture
    }

    fn last(&self, name: &str) -> &Fixture {
        self.made.iter().rfind(|fixture| fixture.path.ends_with(name)).unwrap()
    }

    fn carved(&self, name: &str) -> Vec<u8> {
        carve(&self.fixture.path(name), &self.fixture.path("carved"))
    }

    /// Links a library with the file `content` in a separate section.
    fn included(&self, content: &str, section: &str, align: u32, output: &str) {
        let name = section.split(',').next().unwrap();
        // The preceding text moves the content to an odd offset.
        let before = if align == 1 { ".ascii \"odd\"" } else { "" };
        let source = format!(
            ".section {section}\n.balign {align}\n{before}\n.incbin \"{content}\"\n.section .note.GNU-stack\n"
        );
        fs_err::write(self.fixture.path("include.s"), source).unwrap();
        self.fixture.run("clang", &format!("-shared -nostdlib -fuse-ld=lld include.s -o {output}"));
        let sections = self.fixture.run("llvm-readelf", &format!("-SW {output}"));
        assert!(sections.contains(&format!(" {name} ")), "{sections}");
    }
}

/// Returns the content of `.hip_fatbin`, extracted by LLVM.
fn carve(path: &Path, carved: &Path) -> Vec<u8> {
    let dump = format!("--dump-section=.hip_fatbin={}", carved.display());
    let command =
        rocmrpm::process::Command::new(llvm("objcopy")).arg(dump).arg(path).arg("/dev/null");
    command.text().unwrap();
    fs_err::read(carved).unwrap()
}

/// Returns a compressed bundle. Source of the header: LLVM, `OffloadBundle.cpp`.
fn compress(plain: &[u8], version: u16, method: &str) -> Vec<u8> {
    let payload = match method {
        "zlib" => {
            let mut encoder =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        _ => zstd::stream::encode_all(plain, 19).unwrap(),
    };
    let header = [20, 24, 32][usize::from(version) - 1];
    let (total, size) = ((header + payload.len()) as u64, plain.len() as u64);
    let mut bytes = [&b"CCOB"[..], &version.to_le_bytes()].concat();
    bytes.extend(u16::from(method == "zstd").to_le_bytes());
    match version {
        1 => bytes.extend((size as u32).to_le_bytes()),
        2 => [total, size].iter().for_each(|number| bytes.extend((*number as u32).to_le_bytes())),
        _ => [total, size].iter().for_each(|number| bytes.extend(number.to_le_bytes())),
    }
    bytes.extend(&Md5::digest(plain)[..8]);
    bytes.extend(payload);
    bytes
}
