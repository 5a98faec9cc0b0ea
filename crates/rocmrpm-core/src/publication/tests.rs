//! Tests which packages are new, republished or dropped, and which files a publication sends to an
//! in-memory destination.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;
use crate::index::IndexError;

fn package(name: &str, bytes: &str, content: &str) -> Published {
    Published {
        file: format!("{name}-1-1.noarch.rpm"),
        size: 1,
        sha256: Sha256::of_bytes(bytes),
        time: 0,
        content: content.to_owned(),
        epoch: 0,
        version: "1-1".to_owned(),
        source: format!("{name}-1-1.src.rpm"),
    }
}

fn published(packages: &[Published]) -> RepositoryState {
    RepositoryState { packages: packages.to_vec(), ..RepositoryState::new() }
}

#[test]
fn adds_only_packages_that_are_not_published() {
    let (one, two) = (package("one", "a", "x"), package("two", "b", "y"));
    let added =
        new_packages("there", &published(std::slice::from_ref(&one)), &[one, two.clone()]).unwrap();
    assert_eq!(added, [two]);
}

#[test]
fn ignores_new_signatures() {
    let there = published(&[package("one", "first signature", "x")]);
    assert_eq!(
        new_packages("there", &there, &[package("one", "second signature", "x")]).unwrap(),
        []
    );
}

#[test]
fn refuses_another_build_under_a_published_name() {
    for (before, now) in [("x", "y"), ("", ""), ("", "x"), ("x", "")] {
        let there = published(&[package("one", "a", before)]);
        let error = new_packages("there", &there, &[package("one", "b", now)]).unwrap_err();
        assert!(matches!(error, PublicationError::Republished { .. }), "{error}");
    }
}

#[test]
fn drops_only_packages_that_are_not_kept() {
    let (one, two) = (package("one", "a", "x"), package("two", "b", "y"));
    assert_eq!(left_out(&[one.clone(), two.clone()], std::slice::from_ref(&one)), [two]);
    assert_eq!(left_out(std::slice::from_ref(&one), std::slice::from_ref(&one)), []);
}

/// An in-memory destination that logs operations.
#[derive(Default)]
struct Memory {
    files: RefCell<BTreeMap<String, Vec<u8>>>,
    done: RefCell<Vec<String>>,
}

impl IndexStorage for Memory {
    fn name(&self) -> String {
        "there".to_owned()
    }

    fn read(&self, paths: &[String]) -> Result<Vec<Option<Vec<u8>>>, IndexError> {
        Ok(paths.iter().map(|path| self.files.borrow().get(path).cloned()).collect())
    }

    fn stored(&self, paths: &[String]) -> Result<Vec<Option<Stored>>, IndexError> {
        let stored =
            |bytes: &Vec<u8>| Stored { size: bytes.len() as u64, sha256: Sha256::of_bytes(bytes) };
        Ok(paths.iter().map(|path| self.files.borrow().get(path).map(stored)).collect())
    }

    fn put_packages(&self, packages: &[Package]) -> Result<(), IndexError> {
        for package in packages {
            self.files.borrow_mut().insert(package.path.clone(), fs::read(&package.file).unwrap());
        }
        Ok(())
    }

    fn put_pages(&self, pages: &[Page]) -> Result<(), IndexError> {
        for page in pages {
            self.files.borrow_mut().insert(page.path.clone(), page.bytes.clone());
        }
        Ok(())
    }

    fn remove(&self, paths: &[String]) -> Result<(), IndexError> {
        self.done.borrow_mut().push(format!("remove {}", paths.join(" ")));
        paths.iter().for_each(|path| drop(self.files.borrow_mut().remove(path)));
        Ok(())
    }
}

/// A local repository and the known serial number.
struct Here {
    dir: tempfile::TempDir,
    seen: SerialRecord,
}

impl Here {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let seen = SerialRecord::of(dir.path(), "there", false);
        fs::create_dir(dir.path().join("rpms")).unwrap();
        Self { dir, seen }
    }

    /// Creates a package in the repository.
    fn package(&self, name: &str, release: &str) -> &Self {
        let mut builder = rpm::PackageBuilder::new(name, "1", "MIT", "noarch", "a fixture");
        builder.release(release);
        let file = self.dir.path().join(format!("rpms/{name}-1-{release}.noarch.rpm"));
        builder.build().unwrap().write(&mut fs::File::create(file).unwrap()).unwrap();
        self
    }

    fn plan(&self, place: &Memory, dirty: bool) -> Result<Change, PublicationError> {
        let repository = self.dir.path().join("rpms");
        plan(
            place,
            &Wanted {
                repository: &repository,
                signer: None,
                release: "stack-release",
                keep: 1,
                seen: &self.seen,
                dirty,
            },
        )
    }

    fn publish(&self, place: &Memory) -> Change {
        let change = self.plan(place, false).unwrap();
        change.apply(place).unwrap();
        change
    }
}

#[test]
fn publishes_once_and_keeps_existing_files() {
    let (here, place) = (Here::new(), Memory::default());
    here.package("one", "1");
    let first = here.publish(&place);
    assert_eq!((first.serial, first.added.len(), first.kept.len()), (1, 1, 0));
    assert!(here.publish(&place).is_empty(), "nothing has changed");
    here.package("two", "1");
    let second = here.publish(&place);
    assert_eq!((second.serial, second.added.len(), second.kept.len()), (2, 1, 1));
    assert_eq!(*place.done.borrow(), [""; 0], "nothing is old enough to be removed");
    let metadata: Vec<&str> = second
        .written()
        .filter(|path| path.ends_with(".xml.gz") || path.ends_with(".zst"))
        .collect();
    assert!(metadata.iter().any(|path| path.contains("-primary.xml")), "{metadata:?}");
    assert_eq!(second.written().last(), Some(REPOMD), "readers see the new metadata last");
    assert_eq!(second.written().filter(|path| *path == REPOMD).count(), 1);
    // The first metadata is kept for one more publication, for readers that have just started.
    let third = here.package("three", "1").publish(&place);
    assert!(!third.removed().is_empty());
    assert_eq!(*place.done.borrow(), [format!("remove {}", third.removed().join(" "))]);
}

#[test]
fn interrupted_publishing_keeps_files_in_use() {
    let (here, place) = (Here::new(), Memory::default());
    here.package("one", "1").publish(&place);
    let metadata = || {
        let files = place.files.borrow();
        files
            .keys()
            .filter(|path| path.starts_with("repodata/") && *path != REPOMD)
            .cloned()
            .collect::<Vec<_>>()
    };
    let first = metadata();
    // Readers do not see the `repomd.xml` of the second publication.
    let second = here.package("two", "1").plan(&place, false).unwrap();
    place.put_packages(&second.packages).unwrap();
    place.put_pages(&second.pages[..1]).unwrap();
    let third = here.package("three", "1").publish(&place);
    assert_eq!((third.serial, third.removed()), (3, &[][..]));
    assert!(first.iter().all(|path| metadata().contains(path)), "{first:?}");
    here.package("four", "1").publish(&place);
    assert!(!first.iter().any(|path| metadata().contains(path)), "{first:?}");
}

#[test]
fn rejects_unpublishable_packages() {
    let (here, place) = (Here::new(), Memory::default());
    assert!(matches!(here.plan(&place, false), Err(PublicationError::Nothing)));
    here.package("stack-release", "1");
    assert!(matches!(here.plan(&place, false), Err(PublicationError::Nothing)));
    here.package("one", "1~dirty.5");
    assert!(matches!(here.plan(&place, false), Err(PublicationError::Dirty { .. })));
    assert!(here.plan(&place, true).is_ok());
}

#[test]
fn refuses_published_metadata_with_another_digest() {
    let (here, place) = (Here::new(), Memory::default());
    here.package("one", "1").publish(&place);
    for (path, bytes) in place.files.borrow_mut().iter_mut() {
        if path.contains("-primary.xml") {
            bytes.push(b'x');
        }
    }
    here.package("two", "1");
    let Err(PublicationError::Damaged { reason, .. }) = here.plan(&place, false).map(drop) else {
        panic!("damaged metadata was accepted")
    };
    assert!(reason.contains("does not have the digest in its name"), "{reason}");
}

#[test]
fn refuses_another_key_than_the_published_one() {
    let (here, place) = (Here::new(), Memory::default());
    here.package("one", "1").publish(&place);
    let state = RepositoryState::read(&place.files.borrow()[state::PATH], "there").unwrap();
    let signed = RepositoryState { key: Some("ABCD".to_owned()), ..state };
    place.files.borrow_mut().insert(state::PATH.to_owned(), signed.bytes());
    assert!(matches!(here.plan(&place, false), Err(PublicationError::OtherKey { .. })));
}
