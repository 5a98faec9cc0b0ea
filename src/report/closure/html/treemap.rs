//! Computes areas in proportion to sizes, as close to squares as possible: a squarified treemap
//! (Bruls, Huizing, van Wijk: "Squarified Treemaps", 2000). It does not know what the areas
//! represent.

/// A rectangle, with coordinates from 0 to 1 relative to the whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// The left edge.
    pub x: f64,
    /// The top edge.
    pub y: f64,
    /// The width.
    pub width: f64,
    /// The height.
    pub height: f64,
}

/// Returns an area for each size, in the same order. Sizes must be positive and sorted in
/// descending order. `ratio` is the width of the whole divided by its height.
pub fn areas(sizes: &[f64], ratio: f64) -> Vec<Area> {
    let total: f64 = sizes.iter().sum();
    let mut areas = Vec::with_capacity(sizes.len());
    // Within a whole that is `ratio` wide and 1 high.
    let mut free = Area { x: 0.0, y: 0.0, width: ratio, height: 1.0 };
    let mut rest = sizes;
    while !rest.is_empty() {
        let short = free.width.min(free.height);
        let part = |size: f64| size / total * ratio;
        let mut taken = 1;
        let mut sum = part(rest[0]);
        while let Some(next) = rest.get(taken) {
            let longer = sum + part(*next);
            if worst(part(rest[0]), part(*next), longer, short)
                > worst_of(rest, taken, sum, short, part)
            {
                break;
            }
            sum = longer;
            taken += 1;
        }
        let depth = if short > 0.0 { sum / short } else { 0.0 };
        let mut at = 0.0;
        for size in &rest[..taken] {
            let length = if depth > 0.0 { part(*size) / depth } else { 0.0 };
            areas.push(if free.width >= free.height {
                Area { x: free.x, y: free.y + at, width: depth, height: length }
            } else {
                Area { x: free.x + at, y: free.y, width: length, height: depth }
            });
            at += length;
        }
        if free.width >= free.height {
            free = Area { x: free.x + depth, width: (free.width - depth).max(0.0), ..free };
        } else {
            free = Area { y: free.y + depth, height: (free.height - depth).max(0.0), ..free };
        }
        rest = &rest[taken..];
    }
    let scaled = |area: Area| Area { x: area.x / ratio, width: area.width / ratio, ..area };
    areas.into_iter().map(scaled).collect()
}

fn worst_of(rest: &[f64], taken: usize, sum: f64, short: f64, part: impl Fn(f64) -> f64) -> f64 {
    worst(part(rest[0]), part(rest[taken - 1]), sum, short)
}

/// Returns the aspect ratio of the least square area in a row, given the largest size, the smallest
/// size and the sum.
fn worst(largest: f64, smallest: f64, sum: f64, short: f64) -> f64 {
    let square = short * short;
    (square * largest / (sum * sum)).max(sum * sum / (square * smallest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_proportional_and_fill_the_whole() {
        let sizes = [6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0];
        let areas = areas(&sizes, 1.5);
        assert_eq!(areas.len(), sizes.len());
        let of = |area: &Area| area.width * area.height;
        assert!((areas.iter().map(of).sum::<f64>() - 1.0).abs() < 1e-9);
        for (area, size) in areas.iter().zip(sizes) {
            assert!((of(area) - size / 24.0).abs() < 1e-9, "{area:?}");
            assert!(area.x >= 0.0 && area.x + area.width < 1.0 + 1e-9, "{area:?}");
            assert!(area.y >= 0.0 && area.y + area.height < 1.0 + 1e-9, "{area:?}");
            let sides = 1.5 * area.width / area.height;
            assert!(sides.max(1.0 / sides) < 3.1, "{area:?}");
        }
        for (at, one) in areas.iter().enumerate() {
            for other in &areas[at + 1..] {
                let apart = one.x + one.width <= other.x + 1e-9
                    || other.x + other.width <= one.x + 1e-9
                    || one.y + one.height <= other.y + 1e-9
                    || other.y + other.height <= one.y + 1e-9;
                assert!(apart, "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn accepts_no_sizes_and_a_single_one() {
        assert!(areas(&[], 2.0).is_empty());
        assert_eq!(areas(&[5.0], 2.0), [Area { x: 0.0, y: 0.0, width: 1.0, height: 1.0 }]);
    }
}
