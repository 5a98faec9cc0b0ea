//! Determines the severity of an advisory: the word in its database, or the rating of its CVSS
//! vector. It does not calculate CVSS 4 scores.
//!
//! Sources: CVSS v3.1 specification document, section 7.1 "Base Metrics Equations", table 14
//! "Qualitative severity rating scale"; GitHub's advisories state `database_specific.severity`.

use serde::Serialize;

/// A rating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// 0.1 to 3.9.
    Low,
    /// 4.0 to 6.9.
    Medium,
    /// 7.0 to 8.9.
    High,
    /// 9.0 to 10.0.
    Critical,
}

impl Level {
    /// Returns the name in lowercase.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// Parses a database's word, such as `MODERATE`.
    fn of_word(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "low" => Some(Self::Low),
            "moderate" | "medium" => Some(Self::Medium),
            "high" => Some(Self::High),
            "critical" => Some(Self::Critical),
            _ => None,
        }
    }

    fn of_score(score: f64) -> Option<Self> {
        match score {
            s if s >= 9.0 => Some(Self::Critical),
            s if s >= 7.0 => Some(Self::High),
            s if s >= 4.0 => Some(Self::Medium),
            s if s > 0.0 => Some(Self::Low),
            _ => None,
        }
    }
}

/// The severity that an advisory states.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Severity {
    /// The rating, if known.
    pub level: Option<Level>,
    /// The base score of the vector, for CVSS 3 only.
    pub score: Option<f64>,
    /// The CVSS vector of the newest version in the advisory.
    pub vector: Option<String>,
}

impl Severity {
    /// Determines the severity from a database's word and CVSS vectors.
    pub(super) fn new(word: Option<&str>, vectors: &[&str]) -> Self {
        let score = vectors.iter().find_map(|vector| base_score(vector));
        let vector = vectors.iter().max().map(|vector| (*vector).to_owned());
        let level = word.and_then(Level::of_word).or_else(|| score.and_then(Level::of_score));
        Self { level, score, vector }
    }

    /// Returns the display name.
    pub fn name(&self) -> &'static str {
        self.level.map_or("unknown", Level::name)
    }
}

/// Returns the base score of a CVSS 3.0 or 3.1 vector; `None` for anything else.
fn base_score(vector: &str) -> Option<f64> {
    let metrics = vector.strip_prefix("CVSS:3.1/").or_else(|| vector.strip_prefix("CVSS:3.0/"))?;
    let value =
        |name: &str| metrics.split('/').find_map(|m| m.strip_prefix(name)?.strip_prefix(':'));
    let changed = match value("S")? {
        "C" => true,
        "U" => false,
        _ => return None,
    };
    let of = |name: &str, table: &[(&str, f64)]| {
        let wanted = value(name)?;
        table.iter().find(|(letter, _)| *letter == wanted).map(|(_, weight)| *weight)
    };
    let impact = [("H", 0.56), ("L", 0.22), ("N", 0.0)];
    let (low, high) = if changed { (0.68, 0.5) } else { (0.62, 0.27) };
    let exploitability = 8.22
        * of("AV", &[("N", 0.85), ("A", 0.62), ("L", 0.55), ("P", 0.2)])?
        * of("AC", &[("L", 0.77), ("H", 0.44)])?
        * of("PR", &[("N", 0.85), ("L", low), ("H", high)])?
        * of("UI", &[("N", 0.85), ("R", 0.62)])?;
    let (c, i, a) = (of("C", &impact)?, of("I", &impact)?, of("A", &impact)?);
    let iss = 1.0 - (1.0 - c) * (1.0 - i) * (1.0 - a);
    let impact = match changed {
        true => 7.52 * (iss - 0.029) - 3.25 * (iss - 0.02).powi(15),
        false => 6.42 * iss,
    };
    let factor = if changed { 1.08 } else { 1.0 };
    Some(if impact <= 0.0 {
        0.0
    } else {
        rounded_up((factor * (impact + exploitability)).min(10.0))
    })
}

/// Rounds up to one decimal place as in appendix A of the specification, so that 4.000002 becomes
/// 4.0.
fn rounded_up(score: f64) -> f64 {
    let whole = (score * 100_000.0).round() as u64;
    let tenths = if whole.is_multiple_of(10_000) { whole / 10_000 } else { whole / 10_000 + 1 };
    tenths as f64 / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_the_scores_of_the_specification() {
        // Vectors and scores from FIRST's CVSS v3.1 examples document, and one without impact.
        for (vector, score, name) in [
            ("CVSS:3.1/AV:N/AC:L/PR:N/UI:R/S:C/C:L/I:L/A:N", 6.1, "medium"),
            ("CVSS:3.1/AV:N/AC:L/PR:L/UI:N/S:C/C:L/I:L/A:N", 6.4, "medium"),
            ("CVSS:3.1/AV:N/AC:H/PR:N/UI:R/S:U/C:L/I:N/A:N", 3.1, "low"),
            ("CVSS:3.0/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:N/A:N", 7.5, "high"),
            ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", 9.8, "critical"),
            ("CVSS:3.1/AV:N/AC:L/PR:L/UI:N/S:C/C:H/I:H/A:H", 9.9, "critical"),
            ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:N", 0.0, "unknown"),
        ] {
            let severity = Severity::new(None, &[vector]);
            assert_eq!((severity.score, severity.name()), (Some(score), name), "{vector}");
        }
    }

    #[test]
    fn prefers_the_databases_severity() {
        let vectors = ["CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", "CVSS:4.0/AV:N/AC:L"];
        let severity = Severity::new(Some("MODERATE"), &vectors);
        assert_eq!((severity.name(), severity.score), ("medium", Some(9.8)));
        assert_eq!(severity.vector.as_deref(), Some("CVSS:4.0/AV:N/AC:L"));
        for wrong in
            ["", "CVSS:4.0/AV:N", "CVSS:3.1/AV:X/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", "CVSS:3.1/"]
        {
            assert_eq!(Severity::new(Some("?"), &[wrong]).name(), "unknown", "{wrong}");
        }
    }
}
