//! Rows for people, aligned as `kubectl` aligns them.
use super::output::width;

/// How wide the columns of a table are.
#[derive(Debug)]
pub struct Layout(Vec<usize>);

impl Layout {
    /// Columns that hold every cell of `rows` and the headers.
    pub fn of<R: AsRef<[String]>>(headers: &[String], rows: &[R]) -> Self {
        let mut widths: Vec<usize> = headers.iter().map(|header| width(header)).collect();
        for row in rows {
            for (widest, cell) in widths.iter_mut().zip(row.as_ref()) {
                *widest = (*widest).max(width(cell));
            }
        }
        Self(widths)
    }

    /// Lays `rows` out, three spaces between columns, no space at the end of a line.
    pub fn lines<R: AsRef<[String]>>(&self, rows: &[R]) -> String {
        let mut text = String::new();
        for row in rows {
            let mut line = String::new();
            for (cell, widest) in row.as_ref().iter().zip(&self.0) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', widest.saturating_sub(width(cell)) + 3));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Lays `rows` out under `headers`.
pub fn table<const COLUMNS: usize>(headers: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> String {
    let headers = headers.map(str::to_owned);
    let layout = Layout::of(&headers, rows);
    layout.lines(&[headers]) + &layout.lines(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::output::{BAD, painted};

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            ["orders".to_owned(), "12".to_owned()],
            ["a".to_owned(), String::new()],
        ];
        assert_eq!(
            table(["NAME", "PARTITIONS"], &rows),
            "NAME     PARTITIONS\norders   12\na\n"
        );
    }

    #[test]
    fn colours_take_no_room() {
        let rows = [[painted(BAD, "False"), "SlowReader".to_owned()]];
        let shown = table(["READY", "REASON"], &rows);
        assert_eq!(
            anstream::adapter::strip_str(&shown).to_string(),
            "READY   REASON\nFalse   SlowReader\n"
        );
    }

    #[test]
    fn a_later_row_that_is_too_wide_moves_only_its_own_columns() {
        let layout = Layout::of(
            &["A", "B"].map(str::to_owned),
            &[["x".to_owned(), "y".to_owned()]],
        );
        assert_eq!(layout.lines(&[["long".to_owned(), "y".to_owned()]]), "long   y\n");
    }
}
