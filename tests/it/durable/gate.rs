//! Messages leave when what they show is in the log, and not later.
