//! In place of `measures.rs` without the feature `metrics`: nothing is recorded, and the compiler knows it.

use std::time::Duration;

use tokio::time::Instant;
use zoolet_server_core::{Effects, Input, Output};

use super::snapshot::ServerMetrics;
use crate::durable::Submitted;

/// Never made.
pub(crate) enum Measures {}

impl Measures {
    pub(crate) fn begin_turn(&mut self, _: Instant, _: usize) {
        match *self {}
    }

    pub(crate) fn began(&self) -> Instant {
        match *self {}
    }

    pub(crate) fn begin(&mut self, _: &Input) {
        match *self {}
    }

    pub(crate) fn executed(&mut self, _: Option<&Output>) {
        match *self {}
    }

    pub(crate) fn taken(&mut self, _: Instant, _: u64, _: u64) {
        match *self {}
    }

    pub(crate) fn answered(&mut self, _: Duration, _: u64, _: u64) {
        match *self {}
    }

    pub(crate) fn effects(&mut self, _: &Effects) {
        match *self {}
    }

    pub(crate) fn end_turn(&mut self, _: Instant) {
        match *self {}
    }

    pub(crate) fn reset(&mut self, _: Instant) {
        match *self {}
    }

    pub(crate) fn copy(&mut self, _: Instant) -> Self {
        match *self {}
    }

    pub(crate) fn write(&self, _: &mut ServerMetrics) {
        match *self {}
    }
}

/// Never made.
pub(crate) enum LogMeasures {}

impl LogMeasures {
    pub(crate) fn synced(&mut self, _: &Submitted, _: Instant, _: Instant, _: Instant) {
        match *self {}
    }

    pub(crate) fn snapshot(&mut self, _: Instant, _: Duration) {
        match *self {}
    }

    pub(crate) fn reset(&mut self, _: Instant) {
        match *self {}
    }

    pub(crate) fn copy(&mut self, _: Instant) -> Self {
        match *self {}
    }

    pub(crate) fn write(&self, _: &mut ServerMetrics) {
        match *self {}
    }
}
