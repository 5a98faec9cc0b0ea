//! Fetches a project's page from an index of the Simple API, or reads it from a folder. `index`
//! parses the page.

use std::path::Path;

use fs_err as fs;

use super::cache::Cache;
use super::curl::{self, Failure, Transfer};
use super::index::{self, ProjectFile};
use super::{SourceError, limits, pip, url};
use rocmrpm_base::error::IoError;
use rocmrpm_base::text::{file_url, path_of_file_url};

/// Returns the files of a project on an index; `None` if the index does not have the project.
/// `index` is a URL, with credentials if needed, or the path of a folder.
pub fn project_files(
    cache: &Cache,
    index: &str,
    project: &str,
) -> Result<Option<Vec<ProjectFile>>, SourceError> {
    let page = page(cache, &pip::as_url(index)?, project)?;
    page.map(|(text, url)| index::files(&text, &url)).transpose()
}

/// Returns the files on a page in a folder; `None` if the page does not exist.
pub fn files_of_page(path: &Path) -> Result<Option<Vec<ProjectFile>>, SourceError> {
    if !path.exists() {
        return Ok(None);
    }
    let absolute = std::path::absolute(path).map_err(IoError::doing("find a page of the index"))?;
    let url = file_url(&absolute);
    index::files(&read_page(&absolute, &url)?, &url).map(Some)
}

/// Returns the path in a `file:` URL; `None` if an encoded `..` in it leads out of the visible
/// path.
pub fn path_of_url(url: &str) -> Option<std::path::PathBuf> {
    let path = path_of_file_url(url)?;
    path.components().all(|part| part != std::path::Component::ParentDir).then_some(path)
}

/// Fetches a project's page and returns its text and final URL; `None` if the index does not have
/// the project.
pub fn page(
    cache: &Cache,
    index: &str,
    project: &str,
) -> Result<Option<(String, String)>, SourceError> {
    let (index, credentials) = url::split_credentials(index);
    let page_url = index::page_url(&index, project);
    let scratch = cache.scratch()?;
    let to = scratch.path().join("page");
    let accept = Some(index::ACCEPT);
    let (credentials, limit) = (credentials.as_ref(), limits::PAGE);
    let done =
        curl::run(&Transfer { url: &page_url, credentials, to: &to, resume: false, limit, accept });
    let url = match done {
        Ok(done) => done.url,
        Err(Failure::Error(SourceError::Transfer { status, .. }))
            if status == 404 || (status == 0 && is_missing(&page_url)) =>
        {
            return Ok(None);
        }
        Err(Failure::Error(error)) => return Err(error),
        // Only a resumed transfer can fail like this.
        Err(Failure::CannotResume) => {
            let reason = "the server sent a range that was not requested".into();
            return Err(SourceError::IndexPage { url: page_url, reason });
        }
    };
    let text = read_page(&to, &url)?;
    Ok(Some((text, url)))
}

/// Returns whether a `file:` URL refers to a missing file.
pub fn is_missing(url: &str) -> bool {
    path_of_file_url(url).is_some_and(|path| !path.exists())
}

/// Reads a page that was downloaded from `url`.
pub fn read_page(path: &Path, url: &str) -> Result<String, SourceError> {
    let wrong = |reason: String| SourceError::IndexPage { url: url.to_owned(), reason };
    let size = std::fs::metadata(path).map_or(0, |m| m.len());
    if size > limits::PAGE {
        return Err(wrong(format!("it has {size} bytes, more than the limit of {}", limits::PAGE)));
    }
    if size == 0 {
        return Err(wrong("it is empty".into()));
    }
    let bytes = fs::read(path).map_err(IoError::doing("read a page of the package index"))?;
    String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8 text".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_urls_outside_their_visible_path() {
        assert_eq!(path_of_url("file:///i/a%20b").unwrap(), Path::new("/i/a b"));
        for other in ["file:///i/packages/..%2f..%2fetc/x", "file:///i/%2E%2E/x", "http://h/x"] {
            assert_eq!(path_of_url(other), None, "{other}");
        }
    }

    #[test]
    fn lists_files_of_pages_in_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("index/demo-x/index.html");
        let link = "<a href=\"../../demo_x-1.tar.gz\">demo_x-1.tar.gz</a>";
        rocmrpm_base::files::write_atomically(&page, link).unwrap();
        let cache = Cache::at(dir.path().join("cache"));
        let index = dir.path().join("index").to_string_lossy().into_owned();
        let names = |files: Result<Option<Vec<ProjectFile>>, SourceError>| {
            files.unwrap().map(|files| files.into_iter().map(|file| file.name).collect::<Vec<_>>())
        };
        let expected = Some(vec!["demo_x-1.tar.gz".to_owned()]);
        assert_eq!(names(project_files(&cache, &index, "Demo_x")), expected);
        assert_eq!(names(project_files(&cache, &index, "other")), None);
        assert_eq!(names(files_of_page(&page)), expected);
        assert_eq!(names(files_of_page(&dir.path().join("none.html"))), None);
    }
}
