//! How much of the system's memory an integrated GPU can use, and the kernel option that sets it.

use serde::Serialize;

use super::{GpuMachine, PAGE};
use crate::error::{Error, Kind};

/// Memory that stays for the system, in bytes. GPU memory cannot be swapped out.
pub(super) const SYSTEM: u64 = 8 << 30;

/// Options that set the limit under other names, or that do not exist but are often recommended.
const OTHERS: &[&str] =
    &["amdgpu.gttsize", "amdgpu.gtt_size", "amdttm.pages_limit", "ttm.pages_limit"];

/// How to give an integrated GPU a part of the system's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryPlan {
    /// The memory that the GPU can use, in GiB.
    pub gib: u64,
    /// The same in pages of 4 KiB.
    pub pages: u64,
    /// The kernel option.
    pub option: String,
    /// What remains for the system if the GPU uses all of it, in bytes.
    pub remaining: u64,
    /// The commands that set the option; empty if rocmrpm does not know them for this system.
    pub commands: Vec<String>,
}

impl GpuMachine {
    /// Computes the kernel option that lets the integrated GPU use this much memory.
    ///
    /// Sources: Linux, drivers/gpu/drm/ttm/ttm_tt.c: `pages_limit`, in pages; the default is half of
    /// the memory. drivers/gpu/drm/amd/amdgpu/amdgpu_ttm.c: without `gttsize`, the GPU's limit is
    /// the one of TTM, and `gttsize`, in MiB, is deprecated. AMD, "AMD RDNA3.5 system optimization".
    pub fn memory_plan(&self, gib: u64) -> Result<MemoryPlan, Error> {
        if !self.gpus.iter().any(|gpu| gpu.integrated) {
            let message = "this machine has no AMD GPU that uses the system's memory";
            return Err(Error::new(Kind::Environment, message)
                .with_help("run the command on the machine with the integrated GPU"));
        }
        let most = self.memory.saturating_sub(SYSTEM) >> 30;
        if gib > most {
            let message = format!(
                "cannot give the GPU {gib} GiB: this machine has {}, and the system needs {}",
                self::gib(self.memory),
                self::gib(SYSTEM)
            );
            let error = Error::new(Kind::Usage, message);
            return Err(match most {
                0 => error.with_help("add memory; this machine has too little to share"),
                _ => error.with_help(format!("use `--gpu-memory {most}` or less")),
            });
        }
        let option = format!("{}.pages_limit", self.ttm);
        let pages = (gib << 30) / PAGE;
        let value = format!("{option}={pages}");
        Ok(MemoryPlan {
            gib,
            pages,
            remaining: self.memory - (gib << 30),
            commands: self.set_option(&option, &value),
            option: value,
        })
    }

    /// Returns the commands that set an option and remove those that contradict it.
    fn set_option(&self, option: &str, value: &str) -> Vec<String> {
        if !self.grubby {
            return Vec::new();
        }
        let names = self.options.iter().filter_map(|option| option.split('=').next());
        let others: Vec<&str> =
            names.filter(|name| *name != option && OTHERS.contains(name)).collect();
        let remove = match others.is_empty() {
            true => String::new(),
            false => format!(" --remove-args=\"{}\"", others.join(" ")),
        };
        vec![
            format!("sudo grubby --update-kernel=ALL{remove} --args={value}"),
            "sudo reboot".to_owned(),
        ]
    }
}

/// Formats a number of bytes in GiB, the unit of memory.
pub fn gib(bytes: u64) -> String {
    let text = format!("{:.1}", bytes as f64 / (1u64 << 30) as f64);
    format!("{} GiB", text.trim_end_matches(".0"))
}
