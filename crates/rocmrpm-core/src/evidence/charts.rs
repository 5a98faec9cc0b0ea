//! Charts of values over time, as inline SVG. Colors and fonts are those of the page's style sheet.

use std::fmt::Write;

use crate::html::escape;

/// The size of a chart in pixels, and the space around the line.
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 26.0;

/// A value at a time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    /// The time in RFC 3339; the order of points is that of the slice.
    pub time: String,
    /// The value; 0 or more.
    pub value: f64,
    /// The value as text, for people.
    pub shown: String,
    /// What the point is, such as a version.
    pub label: String,
}

/// Draws a chart with a title; `None` without a point. Points have equal distances: builds are rare and
/// irregular, so distances in time would draw most of them on top of each other.
pub(super) fn chart(title: &str, points: &[Point]) -> Option<String> {
    let (first, last) = (points.first()?, points.last()?);
    let highest = points.iter().max_by(|a, b| a.value.total_cmp(&b.value))?;
    let top = if highest.value > 0.0 { highest.value } else { 1.0 };
    let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let steps = (points.len() - 1).max(1) as f64;
    let x = |at: usize| match points.len() {
        1 => LEFT + width / 2.0,
        _ => LEFT + width * at as f64 / steps,
    };
    let y = |value: f64| TOP + height * (1.0 - value / top);
    let mut text = format!(
        "<figure class=\"chart\">\n<figcaption>{}</figcaption>\n\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}: {} to {}\">\n",
        escape(title),
        escape(title),
        escape(&first.shown),
        escape(&last.shown),
    );
    for (value, label) in [(top, highest.shown.as_str()), (0.0, "0")] {
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{2:.1}\" y2=\"{2:.1}\"/>\
             <text x=\"{3:.1}\" y=\"{4:.1}\" text-anchor=\"end\">{1}</text>",
            WIDTH - RIGHT,
            escape(label),
            y(value),
            LEFT - 8.0,
            y(value) + 4.0,
        );
    }
    let line: Vec<String> = points
        .iter()
        .enumerate()
        .map(|(at, point)| format!("{:.1},{:.1}", x(at), y(point.value)))
        .collect();
    let _ = writeln!(text, "<polyline class=\"line\" points=\"{}\"/>", line.join(" "));
    for (at, point) in points.iter().enumerate() {
        let _ = writeln!(
            text,
            "<circle class=\"point\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}: {}, {}</title></circle>",
            x(at),
            y(point.value),
            escape(day(&point.time)),
            escape(&point.label),
            escape(&point.shown),
        );
    }
    let base = HEIGHT - 6.0;
    let _ = writeln!(text, "<text x=\"{LEFT}\" y=\"{base}\">{}</text>", escape(day(&first.time)));
    if points.len() > 1 {
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            escape(day(&last.time))
        );
    }
    Some(text + "</svg>\n</figure>\n")
}

/// Returns the day of a time in RFC 3339.
pub(super) fn day(time: &str) -> &str {
    time.get(..10).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_a_point_per_value_within_the_chart() {
        let point = |value: f64| Point {
            time: "2026-11-26T10:00:00Z".into(),
            value,
            shown: format!("{value} s"),
            label: "<a>".into(),
        };
        let text = chart("Time", &[point(0.0), point(5.0), point(2.5)]).unwrap();
        assert_eq!(text.matches("<circle").count(), 3);
        assert!(text.contains("2026-11-26: &lt;a&gt;, 5 s"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        for values in [&[0.0][..], &[0.0, 0.0], &[7.0]] {
            let points: Vec<Point> = values.iter().copied().map(point).collect();
            let text = chart("Time", &points).unwrap();
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
        assert_eq!(chart("Time", &[]), None);
    }
}
