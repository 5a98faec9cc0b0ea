//! Builds the filter for requirements that a component's RPMs drop although its Python metadata
//! lists them. It does not decide which requirements to drop.

/// Returns a regular expression for `__requires_exclude`, escaped for a spec. It matches
/// requirements on `never` with and without extras, and requirements on extras of `extras`.
pub fn requires_pattern(never: &[String], extras: &[String]) -> Option<String> {
    let with = (!never.is_empty()).then(|| format!("({})(\\\\[[^]]+\\\\])?", never.join("|")));
    let only = (!extras.is_empty()).then(|| format!("({})\\\\[[^]]+\\\\]", extras.join("|")));
    let all: Vec<String> = with.into_iter().chain(only).collect();
    // A requirement with several bounds begins with a parenthesis.
    (!all.is_empty())
        .then(|| format!("\\\\(*python3(\\\\.[0-9]+)?dist\\\\(({})\\\\)", all.join("|")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_exactly_the_dropped_requirements() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(requires_pattern(&[], &[]), None);
        assert_eq!(
            requires_pattern(&names(&["a", "b-c"]), &names(&["d"])).unwrap(),
            r"\\(*python3(\\.[0-9]+)?dist\\(((a|b-c)(\\[[^]]+\\])?|(d)\\[[^]]+\\])\\)"
        );
    }
}
