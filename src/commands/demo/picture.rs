//! The segments of one partition and its readers, drawn for a terminal.
use std::fmt::Write;

use crate::commands::output::{self, width};

/// Columns before the first segment.
const MARGIN: usize = 6;
/// The widest that anything is drawn: a line that is longer is hard to read.
const WIDEST: usize = 100;

/// The columns to draw in: those of the terminal, up to a bound that is also used where there is none.
pub fn columns() -> usize {
    output::columns().map_or(WIDEST, |columns| columns.min(WIDEST))
}

/// Columns between the left edges of two segments: wide enough for an offset, narrow enough for `columns`.
fn segment_width(segments: usize, columns: usize) -> usize {
    const WIDE: usize = 7;
    const NARROW: usize = 5;
    // The log end stands behind the last edge.
    const LOG_END: usize = 4;
    if MARGIN + segments * WIDE + LOG_END <= columns {
        WIDE
    } else {
        NARROW
    }
}

/// One segment of the drawing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The offset in its file name.
    pub base_offset: i64,
    /// The base offset of the next segment, or the log end.
    pub end_offset: i64,
    /// What stands in the box, five characters at most: an age, usually.
    pub label: String,
    /// Deleted: drawn as a gap, so that a picture before and one after can be laid over each other.
    pub gone: bool,
}

/// An offset with something to say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Where it points.
    pub offset: i64,
    /// What it says.
    pub text: String,
}

/// Draws `segments`, oldest first, with `markers` below them, each on a line of its own; ten segments need 60 columns.
pub fn draw(segments: &[Segment], markers: &[Marker], columns: usize) -> String {
    let segment_width = segment_width(segments.len(), columns);
    let mut lines = [String::new(), String::new(), String::new(), String::new()];
    let mut after_gap = true;
    for segment in segments {
        let [offsets, top, middle, bottom] = &mut lines;
        let _ = write!(offsets, "{:<segment_width$}", segment.base_offset);
        if segment.gone {
            // The box before a gap is closed by its own right edge.
            let edge = if after_gap {
                (" ", " ", " ")
            } else {
                ("┐", "│", "┘")
            };
            let _ = write!(top, "{}{}", edge.0, " ".repeat(segment_width - 1));
            let _ = write!(middle, "{}{:^width$}", edge.1, "gone", width = segment_width - 1);
            let _ = write!(bottom, "{}{}", edge.2, " ".repeat(segment_width - 1));
        } else {
            let edge = if after_gap {
                ("┌", "│", "└")
            } else {
                ("┬", "│", "┴")
            };
            let _ = write!(top, "{}{}", edge.0, "─".repeat(segment_width - 1));
            let _ = write!(
                middle,
                "{}{:^width$}",
                edge.1,
                segment.label,
                width = segment_width - 1
            );
            let _ = write!(bottom, "{}{}", edge.2, "─".repeat(segment_width - 1));
        }
        after_gap = segment.gone;
    }
    if let Some(last) = segments.last() {
        let [offsets, top, middle, bottom] = &mut lines;
        let _ = write!(offsets, "{}", last.end_offset);
        if !last.gone {
            top.push('┐');
            middle.push('│');
            bottom.push('┘');
        }
    }
    let mut drawing = String::new();
    for line in lines {
        let _ = writeln!(drawing, "{:MARGIN$}{}", "", line.trim_end());
    }
    for marker in markers {
        let column = MARGIN + column_of(segments, marker.offset, segment_width);
        let text = format!("{} ({})", marker.text, marker.offset);
        let taken = width(&text) + 1;
        let _ = if column + 1 + taken > columns && taken <= column {
            writeln!(drawing, "{:left$}{text} ▲", "", left = column - taken)
        } else {
            writeln!(drawing, "{:column$}▲ {text}", "")
        };
    }
    drawing
}

/// The column of `offset`, counted from the first segment's left edge; an offset inside a segment lies inside
/// its box in proportion.
fn column_of(segments: &[Segment], offset: i64, segment_width: usize) -> usize {
    let before = segments
        .iter()
        .take_while(|segment| segment.end_offset <= offset)
        .count();
    let left = before * segment_width;
    let Some(segment) = segments.get(before) else {
        return left;
    };
    let span = segment.end_offset.saturating_sub(segment.base_offset).max(1);
    let inside = offset.saturating_sub(segment.base_offset).clamp(0, span);
    let columns = i64::try_from(segment_width).unwrap_or(1).saturating_mul(inside) / span;
    left + usize::try_from(columns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(base_offset: i64, label: &str, gone: bool) -> Segment {
        Segment {
            base_offset,
            end_offset: base_offset + 100,
            label: label.to_owned(),
            gone,
        }
    }

    #[test]
    fn boxes_join_and_markers_point_into_them() {
        let segments = [
            segment(0, "3d", false),
            segment(100, "2d", false),
            segment(200, "1d", false),
        ];
        let markers = [Marker {
            offset: 150,
            text: "billing".to_owned(),
        }];
        let expected = "      \
0      100    200    300
      ┌──────┬──────┬──────┐
      │  3d  │  2d  │  1d  │
      └──────┴──────┴──────┘
                ▲ billing (150)
";
        assert_eq!(draw(&segments, &markers, 80), expected);
    }

    #[test]
    fn ten_segments_and_their_markers_fit_into_sixty_columns() {
        let segments: Vec<Segment> = (0..10).map(|day| segment(day * 100, "10d", false)).collect();
        let markers = [Marker {
            offset: 600,
            text: "the log would start here".to_owned(),
        }];
        let drawing = draw(&segments, &markers, 60);
        assert!(drawing.lines().all(|line| width(line) <= 60), "{drawing}");
        let marker = drawing.lines().last().unwrap_or_default();
        assert_eq!(marker, format!("{:>37}", "the log would start here (600) ▲"));
        assert_eq!(
            draw(&segments, &markers, 80).lines().last(),
            Some(format!("{:48}▲ the log would start here (600)", "").as_str())
        );
    }

    #[test]
    fn a_deleted_segment_leaves_a_gap_of_its_own_width() {
        let segments = [segment(0, "3d", true), segment(100, "2d", false)];
        let expected = "      \
0      100    200
             ┌──────┐
        gone │  2d  │
             └──────┘
";
        assert_eq!(draw(&segments, &[], 80), expected);
    }

    #[test]
    fn the_log_end_lies_at_the_right_edge() {
        let segments = [segment(0, "3d", false)];
        assert_eq!(column_of(&segments, 100, 7), 7);
        assert_eq!(column_of(&segments, 0, 7), 0);
    }
}
