//! Rows for people, aligned as `kubectl` aligns them.

/// Lays `rows` out under `headers`, three spaces between columns, no space at the end of a line.
pub fn table<const COLUMNS: usize>(headers: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> String {
    let mut widths = headers.map(width);
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(width(cell));
        }
    }
    let mut text = String::new();
    let headers = headers.map(str::to_owned);
    for row in std::iter::once(&headers).chain(rows) {
        let mut line = String::new();
        for (cell, widest) in row.iter().zip(widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', widest - width(cell) + 3));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
