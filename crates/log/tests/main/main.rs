//! The promises of the log, over the real disk and the simulated one.
