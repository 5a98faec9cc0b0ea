//! Parses the requirements and extras of a wheel from its METADATA. It does not resolve them.

use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{ExtraName, MarkerEnvironment, Requirement, VersionOrUrl};

use crate::wheel;

/// The requirements and extras that METADATA declares.
#[derive(Debug, Clone, Default)]
pub struct Needs {
    /// The valid `Requires-Dist` fields.
    pub requires: Vec<Need>,
    /// The valid `Provides-Extra` fields.
    pub extras: Vec<ExtraName>,
    /// Invalid requirements, each with the parse error.
    pub unreadable: Vec<(String, String)>,
}

/// One requirement.
#[derive(Debug, Clone)]
pub struct Need {
    /// The text in METADATA.
    pub text: String,
    /// The parsed text.
    pub parsed: Requirement,
}

impl Need {
    /// Returns the normalized name of the required distribution.
    pub fn name(&self) -> &str {
        self.parsed.name.as_ref()
    }

    /// Returns the name with extras and versions, without the marker.
    pub fn wanted(&self) -> String {
        self.text.split(';').next().unwrap_or(&self.text).trim().to_owned()
    }

    /// Returns whether the requirement applies in this environment with these extras.
    pub fn holds(&self, environment: &MarkerEnvironment, extras: &[ExtraName]) -> bool {
        self.parsed.marker.evaluate(environment, extras)
    }

    /// Returns whether the requirement has a URL instead of version specifiers.
    pub fn names_url(&self) -> bool {
        matches!(self.parsed.version_or_url, Some(VersionOrUrl::Url(_)))
    }

    /// Returns the version specifiers; `None` if the requirement accepts every version.
    pub fn specifiers(&self) -> Option<&VersionSpecifiers> {
        match &self.parsed.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
            _ => None,
        }
    }

    /// Returns whether a version satisfies the requirement.
    pub fn takes(&self, version: &Version) -> bool {
        self.specifiers().is_none_or(|specifiers| specifiers.contains(version))
    }
}

impl Needs {
    /// Parses the header of METADATA (core metadata specifications of the Python packaging user
    /// guide).
    pub fn read(metadata: &str) -> Self {
        let mut needs = Self::default();
        for field in wheel::header_fields(metadata) {
            let value = field.one_line();
            if field.is("Requires-Dist") {
                match wheel::requirement(&value) {
                    Ok(parsed) => needs.requires.push(Need { text: value, parsed }),
                    Err(reason) => needs.unreadable.push((value, reason)),
                }
            } else if field.is("Provides-Extra")
                && let Ok(extra) = ExtraName::from_str(&value)
                && !needs.extras.contains(&extra)
            {
                needs.extras.push(extra);
            }
        }
        needs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;

    #[test]
    fn parses_requirements_and_extras() {
        let needs = Needs::read(
            "Name: a\nRequires-Dist: Torch_X[gpu]==2.11.0 ; python_version >= '3.9'\nrequires-dist: b >=1,\n  <2\n\
             Provides-Extra: dev\nProvides-Extra: dev\nRequires-Dist: c ; extra == 'dev'\nRequires-Dist: d ==x\n\n\
             Requires-Dist: text\n",
        );
        let texts: Vec<_> = needs.requires.iter().map(Need::wanted).collect();
        assert_eq!(texts, ["Torch_X[gpu]==2.11.0", "b >=1, <2", "c"]);
        assert_eq!(needs.requires[0].name(), "torch-x");
        assert_eq!((needs.extras.len(), needs.unreadable.len()), (1, 1));
        let here = Environment::new("3.14", "x86_64", None).unwrap();
        let holds =
            |at: usize, extras: &[ExtraName]| needs.requires[at].holds(here.markers(), extras);
        assert!(holds(0, &[]) && !holds(2, &[]) && holds(2, &needs.extras));
        let local = Version::from_str("2.11.0+rocm7.14.gfx1151").unwrap();
        assert!(needs.requires[0].takes(&local) && !needs.requires[1].takes(&local));
    }

    #[test]
    fn rejects_hostile_requirements() {
        let deep = format!("Requires-Dist: a; {}os_name == 'x'\n", "(".repeat(5000));
        let pairs: Vec<String> =
            (0..40).map(|n| format!("(extra == 'a{n}' and extra == 'b{n}')")).collect();
        let wide = format!("Requires-Dist: a; {}\n", pairs.join(" or "));
        for hostile in [deep.as_str(), &wide, "Requires-Dist: a-\n", "Requires-Dist: a[x-]\n"] {
            assert_eq!(Needs::read(hostile).unreadable.len(), 1, "{hostile}");
        }
    }
}
