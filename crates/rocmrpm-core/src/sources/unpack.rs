//! Unpacks an untrusted archive with limits on bytes and members, and writes nothing outside of the
//! folder. It does not interpret the content.

use std::io::{self, BufReader, Read};
use std::path::Path;

use fs_err as fs;
use tar::EntryType;

use super::{Fetched, SourceError, limits};
use crate::error::IoError;
use crate::limits::{Bounded, too_large};
use crate::process::{self, Command};

/// Unpacks the tar archive `fetched` with any compression into the empty folder `to`. The user owns
/// all files; permissions for others and special bits are dropped, and devices and pipes are
/// skipped.
pub(crate) fn unpack(fetched: &Fetched, to: &Path) -> Result<(), SourceError> {
    let limit = limits::unpacked(fetched.size)?;
    let wrong = |error: io::Error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            IoError::doing(format!("unpack `{}`", fetched.file_name))(error).into()
        }
        kind => SourceError::NotUnpacked {
            archive: fetched.file_name.clone(),
            reason: crate::text::visible(&error.to_string()),
            limit: (kind == io::ErrorKind::FileTooLarge).then_some(limit),
        },
    };
    let stream = Bounded::new(stream(fetched, to, limit)?, limit);
    let mut archive = tar::Archive::new(stream);
    let mut folders = Vec::new();
    let (mut members, mut bytes) = (0, 0u64);
    for entry in archive.entries().map_err(wrong)? {
        process::check_stop()?;
        let mut entry = entry.map_err(wrong)?;
        members += 1;
        // Holes of a sparse file take no space in the archive.
        bytes = bytes.saturating_add(entry.size());
        if members > limits::MEMBERS {
            return Err(wrong(io::Error::other(format!(
                "it has more than {} members",
                limits::MEMBERS
            ))));
        }
        if bytes > limit {
            return Err(wrong(too_large(limit)));
        }
        entry.set_mask(0o022);
        match entry.header().entry_type() {
            EntryType::Char | EntryType::Block | EntryType::Fifo => {}
            // A folder may deny us access, so set its permissions last.
            EntryType::Directory => folders.push(entry),
            _ => place(&mut entry, to).map_err(wrong)?,
        }
    }
    for mut folder in folders.into_iter().rev() {
        place(&mut folder, to).map_err(wrong)?;
    }
    Ok(())
}

/// Writes one member below the folder.
fn place<R: Read>(entry: &mut tar::Entry<'_, R>, to: &Path) -> io::Result<()> {
    let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    match entry.unpack_in(to) {
        Ok(true) => Ok(()),
        Ok(false) => Err(io::Error::other(format!("the member `{path}` leads out of the folder"))),
        // The outer error only repeats local paths.
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let text =
                format!("the member `{path}`: {}", cause.unwrap_or_else(|| error.to_string()));
            Err(io::Error::new(error.kind(), text))
        }
    }
}

/// Returns a reader for the decompressed archive.
fn stream(fetched: &Fetched, to: &Path, limit: u64) -> Result<Box<dyn Read>, SourceError> {
    let action = || IoError::doing(format!("unpack `{}`", fetched.file_name));
    let mut file = fs::File::open(&fetched.path).map_err(action())?;
    let mut start = Vec::new();
    (&mut file).take(6).read_to_end(&mut start).map_err(action())?;
    let file = BufReader::new(fs::File::open(&fetched.path).map_err(action())?);
    Ok(match start.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(file))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Box::new(zstd::stream::read::Decoder::with_buffer(file).map_err(action())?)
        }
        [b'B', b'Z', b'h', ..] => Box::new(bunzip2(fetched, to, limit)?),
        _ => Box::new(file),
    })
}

/// Runs bzip2 next to the destination folder because there is no built-in decoder.
fn bunzip2(fetched: &Fetched, to: &Path, limit: u64) -> Result<fs::File, SourceError> {
    let action = || IoError::doing(format!("unpack `{}`", fetched.file_name));
    let scratch = tempfile::tempdir_in(to.parent().unwrap_or(to)).map_err(action())?;
    let packed = scratch.path().join("tar.bz2");
    fs::copy(&fetched.path, &packed).map_err(action())?;
    let bzip2 =
        Command::new("bzip2").arg("--decompress").arg(&packed).max_file(limit).env("LC_ALL", "C");
    let done = bzip2.run()?;
    if done.success() {
        return Ok(fs::File::open(scratch.path().join("tar")).map_err(action())?);
    }
    let large = done.signal == Some(process::TOO_LARGE);
    let reason = match large {
        true => too_large(limit).to_string(),
        false => process::last_lines(&done.stderr, 1).concat(),
    };
    Err(SourceError::NotUnpacked {
        archive: fetched.file_name.clone(),
        reason,
        limit: large.then_some(limit),
    })
}
