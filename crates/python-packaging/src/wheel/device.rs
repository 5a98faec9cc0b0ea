//! RPMs that have only the kpack archives of one GPU target, and the extras of the wheel with the
//! library. Names and extras are those of AMD's: `torch-device-gfx1151`, `torch[device-gfx1151]`.

use std::collections::BTreeSet;

use super::WheelError;
use super::header;
use super::metadata::Metadata;
use super::payload::Payload;
use rocmrpm_base::gpu::{self, GpuTarget};
use rocmrpm_rpms::{self as rpms, Header};

/// Which GPU code an RPM has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Device {
    /// The package that the RPM is named after, which has the library.
    pub host: String,
    /// The processor, such as `gfx1151`.
    pub target: String,
}

impl Device {
    /// Recognizes the packages of `_shared/device-packages.tera`: `HOST-gfx1151` or
    /// `HOST-device-gfx1151`, which provides `rocm-gfx(gfx1151)` and has nothing but archives.
    pub fn of<'p>(header: &Header, mut paths: impl Iterator<Item = &'p str>) -> Option<Self> {
        let (host, target) = header.name.rsplit_once('-')?;
        let mut targets =
            header.provides.iter().filter_map(|name| GpuTarget::parse(gpu::of_provide(name)?));
        let provides = targets.any(|gpu| gpu.processor() == target);
        let archive = |path: &str| path.ends_with(".kpack");
        let only = paths.next().is_some_and(archive) && paths.all(archive);
        let host = host.strip_suffix("-device").unwrap_or(host);
        (provides && only).then(|| Self { host: host.to_owned(), target: target.to_owned() })
    }

    /// Recognizes an RPM that was read.
    pub fn of_payload(payload: &Payload) -> Result<Option<Self>, WheelError> {
        let header = rpms::header(payload.rpm())?;
        Ok(Self::of(&header, payload.nodes.keys().map(String::as_str)))
    }

    /// Returns the name of the distribution that has the code for one with this name.
    pub fn distribution(&self, host: &str) -> String {
        format!("{host}-device-{}", self.target)
    }
}

/// Adds the extras for the targets to the METADATA of the wheel with the library: `device-TARGET`
/// for each, and `device-all`.
pub(super) fn with_extras(text: &str, metadata: &Metadata, devices: &[Device]) -> String {
    let Metadata { name, version, .. } = metadata;
    let targets: BTreeSet<&str> = devices.iter().map(|device| device.target.as_str()).collect();
    let wheel = |target: &str, extra: &str| {
        format!("Requires-Dist: {name}-device-{target}=={version}; extra == \"device-{extra}\"\n")
    };
    let mut lines = String::new();
    for target in &targets {
        lines += &format!("Provides-Extra: device-{target}\n{}", wheel(target, target));
    }
    if !targets.is_empty() {
        lines += "Provides-Extra: device-all\n";
        targets.iter().for_each(|target| lines += &wheel(target, "all"));
    }
    let (fields, rest) = text.split_at(header::end(text));
    let end = if fields.ends_with(['\n', '\r']) || fields.is_empty() { "" } else { "\n" };
    // All lines end like the others.
    let lines = if fields.ends_with("\r\n") { lines.replace('\n', "\r\n") } else { lines };
    format!("{fields}{end}{lines}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::rocm_sdk;

    fn header(name: &str, provides: &[&str]) -> Header {
        let mut builder = rpm::PackageBuilder::new(name, "1.0", "MIT", "x86_64", "a fixture");
        for name in provides {
            builder.provides(rpm::Dependency::any(*name));
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.rpm");
        builder.build().unwrap().write_file(&path).unwrap();
        rpms::header(&path).unwrap()
    }

    #[test]
    fn recognizes_packages_of_one_target() {
        let of = |name: &str, provides: &[&str], paths: &[&str]| {
            let device = Device::of(&header(name, provides), paths.iter().copied())?;
            Some(format!("{} {}", device.host, device.target))
        };
        let archive = ["/usr/lib64/.kpack/k_gfx1201.kpack"];
        let found = Some("python3-k gfx1201".to_owned());
        for name in ["python3-k-gfx1201", "python3-k-device-gfx1201"] {
            assert_eq!(of(name, &["rocm-gfx(gfx1201)"], &archive), found);
        }
        let features = ["rocm-gfx(gfx90a:xnack+)", "rocm-gfx(gfx90a:xnack-)"];
        assert_eq!(of("k-gfx90a", &features, &archive).as_deref(), Some("k gfx90a"));
        // Chooses a target; has other files; has code for another target; has all targets.
        assert_eq!(of("k-gfx1201", &["rocm-gfx(gfx1201)"], &[]), None);
        let more = [archive[0], "/usr/lib64/libk.so"];
        assert_eq!(of("k-gfx1201", &["rocm-gfx(gfx1201)"], &more), None);
        assert_eq!(of("k-gfx1201", &["rocm-gfx(gfx1100)"], &archive), None);
        assert_eq!(of("k-gfx1201", &[], &archive), None);
        assert_eq!(of("k", &["rocm-gfx(gfx1201)"], &archive), None);
    }

    #[test]
    fn adds_extras_after_the_last_field() {
        let device = |target: &str| Device { host: "k".into(), target: target.into() };
        let text = "Metadata-Version: 2.1\r\nName: K.x\r\nVersion: 1+a\r\n\r\nText\r\n";
        let metadata = Metadata::parse(text).unwrap();
        assert_eq!(with_extras(text, &metadata, &[]), text);
        let changed = with_extras(text, &metadata, &[device("gfx1100")]);
        let (fields, rest) = changed.split_at(header::end(&changed));
        assert_eq!(rest, "\r\nText\r\n");
        let added = "Provides-Extra: device-gfx1100\r\n\
                     Requires-Dist: K.x-device-gfx1100==1+a; extra == \"device-gfx1100\"\r\n\
                     Provides-Extra: device-all\r\n\
                     Requires-Dist: K.x-device-gfx1100==1+a; extra == \"device-all\"\r\n";
        assert!(fields.ends_with(added), "{fields}");
        let bare = with_extras("Name: k\nVersion: 1", &metadata, &[device("gfx1100")]);
        assert!(bare.starts_with("Name: k\nVersion: 1\nProvides-Extra: "), "{bare}");
    }

    #[test]
    fn splits_the_requirement_on_rocm() {
        let all = "rocm[device-gfx1100,device-gfx1201,libraries]==7.14.*";
        assert_eq!(rocm_sdk::without_devices(all), "rocm[libraries]==7.14.*");
        let own = rocm_sdk::for_device(all, "gfx1201");
        assert_eq!(own.as_deref(), Some("rocm[device-gfx1201]==7.14.*"));
        assert_eq!(rocm_sdk::for_device("rocm[libraries]==7.2.*", "gfx1201"), None);
    }
}
