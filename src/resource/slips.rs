//! What was meant by a name that is none.

/// The longest name that anything is looked for.
const LONGEST: usize = 100;

/// The nearest of the known names that differs by another way of writing (underscores, camel case), or by a slip or two of the finger.
pub(super) fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let asked = plain(name);
    known
        .into_iter()
        .map(|other| (distance(&asked, &plain(other)), other))
        .min()
        .filter(|(distance, other)| *distance <= 2 && *distance < other.len() / 2)
        .map(|(_, other)| other)
}

fn plain(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// Levenshtein distance over bytes.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(other.bytes()) {
            let above = *cell;
            let value = (diagonal + usize::from(a != b)).min(above + 1).min(left + 1);
            diagonal = above;
            left = value;
            *cell = value;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
