//! Every fault twice: under it a naive client is seen to go wrong, and ours to go right.

mod cut_off;
mod late;
mod lost;
mod naive;
mod sessions;
mod whole_server;
mod wrong;
