//! Source archives for tests.

/// Returns a `.tar.gz` of files below one folder, the same bytes every time.
pub fn tar_gz(folder: &str, files: &[(impl AsRef<str>, impl AsRef<str>)]) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut archive = tar::Builder::new(gzip);
    for (path, text) in files {
        let (path, text) = (format!("{folder}/{}", path.as_ref()), text.as_ref());
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}
