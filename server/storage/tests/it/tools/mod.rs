//! What an operator does with a directory while no server runs.

mod copying;
mod inspecting;
mod verifying;
