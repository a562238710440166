//! What a command writes: text on standard output, errors with a next step on standard error.
//!
//! Colour goes to a terminal only, and never under `NO_COLOR`. A reader that has gone, as `head` does, is no error: the
//! command goes on without it, so that its exit code stays the answer.
use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::os::fd::AsFd;

use anstyle::{AnsiColor, Style};
use anyhow::Context;
use rustix::termios;

/// What is as it should be.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// What somebody has to look at.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// What is on its way, or done in part.
pub const PARTLY: Style = AnsiColor::Yellow.on_default();

/// Writes `text` to standard output; answers whether anybody is left to read more.
///
/// # Errors
/// When it cannot be written for another reason than that the reader has gone.
pub fn show(text: &str) -> anyhow::Result<bool> {
    let mut output = anstream::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("write to standard output"),
    }
}

/// `text` in a style, which [`show`] takes away again where no colour belongs.
pub fn painted(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// The columns of the terminal that standard output is, if it is one.
pub fn columns() -> Option<usize> {
    columns_of(std::io::stdout())
}

fn columns_of(stream: impl AsFd) -> Option<usize> {
    let size = termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// The columns that `text` takes on a terminal; its colours take none.
pub fn width(text: &str) -> usize {
    anstream::adapter::strip_str(text)
        .map(|part| part.chars().count())
        .sum()
}

/// `lead` and behind it `text`, broken at its spaces into lines of at most `columns` that begin below each other.
/// A word that is longer stays whole.
pub fn wrapped(lead: &str, text: &str, columns: usize) -> String {
    // A long lead would leave a thin column only.
    let indent = width(lead).min(columns / 3);
    let mut lines = lead.to_owned();
    let mut used = width(lead);
    let mut begins = true;
    for word in text.split(' ') {
        let length = width(word);
        if !begins && used + 1 + length > columns {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else if !begins {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += length;
        begins = false;
    }
    lines
}

/// Tells something beside the result, on standard error.
pub fn note(text: &str) {
    let _ = anstream::stderr()
        .lock()
        .write_all(format!("{} {text}\n", painted(PARTLY, "note:")).as_bytes());
}

/// What to do next about an error: its outermost context, told below it.
#[derive(Debug)]
pub struct Tip(pub String);

impl fmt::Display for Tip {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Tells an error on standard error.
pub fn complain(error: &anyhow::Error) {
    // Nobody is left to tell where even standard error is gone.
    let text = complaint(error, columns_of(std::io::stderr()));
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// An error for people: the chain of causes in a sentence, and the tip if it has one.
fn complaint(error: &anyhow::Error, columns: Option<usize>) -> String {
    let tip = error.downcast_ref::<Tip>();
    let mut sentence = String::new();
    for cause in error.chain().skip(usize::from(tip.is_some())) {
        let cause = cause.to_string();
        // An error that quotes its own cause has told it already.
        if sentence.contains(&cause) {
            continue;
        }
        if !sentence.is_empty() {
            sentence.push_str(": ");
        }
        sentence.push_str(&cause);
    }
    let told = |lead: &str, sentence: &str| match columns {
        // Lists have lines of their own.
        Some(columns) if !sentence.contains('\n') => wrapped(lead, sentence, columns) + "\n",
        _ => format!("{lead}{sentence}\n"),
    };
    let mut text = told(&format!("{} ", painted(BAD, "error:")), &sentence);
    if let Some(Tip(tip)) = tip {
        text.push('\n');
        text.push_str(&told(&format!("  {} ", painted(GOOD, "tip:")), tip));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_cause_is_told_once_and_a_tip_below() {
        let cause = std::io::Error::other("it is full");
        let quoting = anyhow::Error::new(cause)
            .context("cannot write x: it is full")
            .context("save");
        assert_eq!(
            plain(&complaint(&quoting, None)),
            "error: save: cannot write x: it is full\n"
        );
        let helped = quoting.context(Tip("make room".to_owned()));
        assert_eq!(
            plain(&complaint(&helped, None)),
            "error: save: cannot write x: it is full\n\n  tip: make room\n"
        );
    }

    #[test]
    fn lines_break_between_words_and_never_within() {
        assert_eq!(wrapped("", "one two three", 80), "one two three");
        assert_eq!(wrapped("* ", "one two three", 9), "* one two\n  three");
        assert_eq!(
            wrapped("* ", "a quite-unbreakable word", 8),
            "* a\n  quite-unbreakable\n  word"
        );
        let coloured = format!("{} two", painted(BAD, "one"));
        assert_eq!(
            plain(&wrapped("", &coloured, 7)),
            "one two",
            "colours take no room"
        );
    }
}
