//! The engine as a whole: a real one on a temporary directory, with a clock that the test moves, reached as its users reach it: over the
//! Kafka protocol and the control API. No peers are needed.
mod changes;
mod doors;
mod guard;
mod readers;
mod scene;
