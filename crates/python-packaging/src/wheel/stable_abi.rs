//! Finds the first Python that has the parts of CPython's stable ABI that a library uses, from the
//! data in `stable_abi.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Returns the first minor version of Python 3 whose stable ABI has all of these functions and
/// data: 0 if `names` is empty, `None` if no version has them all.
pub(super) fn since<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<u32> {
    static TABLE: LazyLock<BTreeMap<String, u32>> = LazyLock::new(|| {
        // The table is built in, and a test parses it.
        let by_version: BTreeMap<String, Vec<String>> =
            toml::from_str(include_str!("stable_abi.toml"))
                .expect("the built-in table of the ABI is valid");
        let mut table = BTreeMap::new();
        for (minor, names) in by_version {
            let minor: u32 = minor.parse().expect("a minor version is a number");
            table.extend(names.into_iter().map(|name| (name, minor)));
        }
        table
    });
    names.try_fold(0, |since, name| TABLE.get(name).map(|minor| since.max(*minor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_name_decides() {
        for (names, expected) in [
            (&[][..], Some(0)),
            (&["PyList_New", "_Py_NoneStruct"], Some(2)),
            (&["PyList_New", "PyModule_AddObjectRef"], Some(10)),
            (&["PyType_FromMetaclass"], Some(12)),
            (&["PyList_New", "_PyUnicode_Ready"], None),
        ] {
            assert_eq!(since(names.iter().copied()), expected, "{names:?}");
        }
    }
}
