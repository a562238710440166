//! The command line of Tidemark.
fn main() {}
