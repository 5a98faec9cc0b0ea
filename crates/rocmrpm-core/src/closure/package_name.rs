//! Names of the packages of distributions.

/// Returns the name of a distribution's package: Fedora's guidelines drop a leading `python-`.
pub(crate) fn package(name: &str) -> String {
    format!("python3-{}", stem(name))
}

/// Returns the name of a distribution without the prefix that its package's name adds again.
pub(crate) fn stem(name: &str) -> &str {
    name.strip_prefix("python-").filter(|rest| !rest.is_empty()).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_fedoras_names() {
        assert_eq!(
            [package("python-dotenv"), package("blake3")],
            ["python3-dotenv", "python3-blake3"]
        );
    }
}
