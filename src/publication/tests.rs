//! Which packages are new, republished or dropped.

use super::*;

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

fn published(packages: &[Published]) -> State {
    State { packages: packages.to_vec(), ..State::new() }
}

#[test]
fn adds_only_packages_that_are_not_published() {
    let (one, two) = (package("one", "a", "x"), package("two", "b", "y"));
    let added = new_packages("there", &published(std::slice::from_ref(&one)), &[one, two.clone()]).unwrap();
    assert_eq!(added, [two]);
}

#[test]
fn a_package_that_was_signed_again_is_not_new() {
    let there = published(&[package("one", "first signature", "x")]);
    assert_eq!(new_packages("there", &there, &[package("one", "second signature", "x")]).unwrap(), []);
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
