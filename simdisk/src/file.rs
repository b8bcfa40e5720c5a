//! [`FileState`]: what a file shows, what of it is durable, and what is between.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::RngExt as _;
use rand::rngs::SmallRng;
use rand::seq::IteratorRandom as _;

use crate::content::{ALL_SECTORS, Content, PAGE, Page, Sectors, sectors, zeros};

/// The system writes pages back on its own. The most states of one page, and lengths of one file, that can be on disk.
const MAX_VERSIONS: usize = 8;
const MAX_LENGTHS: usize = 64;

/// What of the unsynced changes survives a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Survival {
    Nothing,
    Everything,
    /// What was done up to this step.
    UpTo(u64),
    /// Each page is lost, kept or torn, independently of the others.
    Torn,
}

/// A file: what a read shows, what of it is durable, and the changes since the last sync.
///
/// Pages of 4 KiB are cached and written back, as by Linux, but the unit that a disk writes whole or not at all is a sector of 512
/// bytes. A sector may have any state that it had since the last sync, not only the last one, as its page may have been
/// written back in between; the length likewise.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileState {
    cache: Content,
    durable: Content,
    dirty: BTreeMap<u64, Vec<Version>>,
    lengths: Vec<(u64, u64)>,
    /// The room that the file system keeps, a multiple of the size of a page.
    reserved: u64,
}

/// The state of a page after a change: those of its sectors that are written.
#[derive(Debug, Clone)]
struct Version {
    step: u64,
    sectors: Sectors,
    page: Option<Arc<Page>>,
}

impl FileState {
    /// A file that has been on disk for long.
    pub(crate) fn durable(bytes: &[u8]) -> Self {
        let mut file = Self::default();
        for (number, piece) in (0..).zip(bytes.chunks(PAGE as usize)) {
            if piece.iter().any(|byte| *byte != 0) {
                let mut page = zeros();
                Arc::make_mut(&mut page)[..piece.len()].copy_from_slice(piece);
                file.cache.pages.insert(number, page);
            }
        }
        file.cache.len = bytes.len() as u64;
        file.durable = file.cache.clone();
        file
    }

    pub(crate) fn len(&self) -> u64 {
        self.cache.len
    }

    pub(crate) fn durable_len(&self) -> u64 {
        self.durable.len
    }

    pub(crate) fn dirty_pages(&self) -> usize {
        self.dirty.len()
    }

    /// The step of the oldest change that is not synced.
    pub(crate) fn first_change(&self) -> Option<u64> {
        let pages = self.dirty.values().filter_map(|versions| versions.first()).map(|version| version.step);
        pages.chain(self.lengths.first().map(|(step, _)| *step)).min()
    }

    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        self.cache.read(buffer, offset)
    }

    /// The bytes of pages that this file takes from the disk.
    pub(crate) fn allocated(&self) -> u64 {
        self.reserved + self.cache.pages_beyond(self.reserved).count() as u64 * PAGE
    }

    /// Whether a write at `offset` finds its page on disk already.
    pub(crate) fn has_room(&self, offset: u64) -> bool {
        offset < self.reserved || self.cache.pages.contains_key(&(offset / PAGE))
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8], mut offset: u64, step: u64) {
        if bytes.is_empty() {
            return;
        }
        while !bytes.is_empty() {
            let at = (offset % PAGE) as usize;
            let (piece, rest) = bytes.split_at(bytes.len().min(PAGE as usize - at));
            let number = offset / PAGE;
            let page = self.cache.pages.entry(number).or_insert_with(zeros);
            Arc::make_mut(page)[at..at + piece.len()].copy_from_slice(piece);
            let page = Some(Arc::clone(page));
            self.note(number, Version { step, sectors: sectors(at..at + piece.len()), page });
            (bytes, offset) = (rest, offset + piece.len() as u64);
        }
        if offset > self.cache.len || offset > self.last_length() {
            self.note_length(offset.max(self.cache.len), step);
        }
    }

    pub(crate) fn set_len(&mut self, len: u64, step: u64) {
        if len < self.cache.len {
            // Durable pages that the cache does not have are those that a failed sync left behind.
            let beyond: Vec<_> = self.cache.pages_beyond(len).chain(self.durable.pages_beyond(len)).collect();
            self.cache.len = len;
            self.cache.trim();
            for number in beyond {
                let cut = len.saturating_sub(number * PAGE) as usize;
                let page = self.cache.pages.get(&number).cloned();
                self.note(number, Version { step, sectors: sectors(cut..PAGE as usize), page });
            }
            self.reserved = self.reserved.min(len.next_multiple_of(PAGE));
        }
        if len != self.cache.len || len != self.last_length() {
            self.note_length(len, step);
        }
    }

    pub(crate) fn reserve(&mut self, len: u64, step: u64) {
        self.reserved = self.reserved.max(len.next_multiple_of(PAGE));
        if len > self.cache.len {
            self.note_length(len, step);
        }
    }

    pub(crate) fn sync(&mut self) {
        for (number, versions) in std::mem::take(&mut self.dirty) {
            let written = versions.iter().fold(0, |sectors, version| sectors | version.sectors);
            self.durable.put(number, written, self.cache.pages.get(&number));
        }
        self.durable.len = self.last_length();
        self.lengths.clear();
    }

    /// As Linux does it: the pages are clean from now on, so that the next sync succeeds, and at least one of them never
    /// reaches the disk.
    pub(crate) fn fail_sync(&mut self, rng: &mut SmallRng) {
        let lost = self.dirty.keys().copied().choose(rng);
        if let Some(lost) = lost {
            self.dirty.remove(&lost);
        } else {
            self.lengths.clear();
        }
        let survival = if rng.random_bool(0.5) { Survival::Nothing } else { Survival::Torn };
        self.write_back(survival, rng);
    }

    /// What is left after a power loss.
    pub(crate) fn lose_power(&mut self, survival: Survival, rng: &mut SmallRng) {
        self.write_back(survival, rng);
        self.cache = self.durable.clone();
        self.reserved = self.reserved.min(self.cache.len.next_multiple_of(PAGE));
    }

    /// Flips a bit on disk, and in the cache as if the page were read again.
    pub(crate) fn flip(&mut self, offset: u64, bit: u8) {
        for content in [&mut self.cache, &mut self.durable] {
            if offset < content.len {
                let page = content.pages.entry(offset / PAGE).or_insert_with(zeros);
                Arc::make_mut(page)[(offset % PAGE) as usize] ^= 1 << (bit % 8);
            }
        }
    }

    /// The length that the next sync makes durable. After a failed one that is not the length that the cache shows.
    fn last_length(&self) -> u64 {
        self.lengths.last().map_or(self.durable.len, |(_, len)| *len)
    }

    fn note(&mut self, number: u64, version: Version) {
        let versions = self.dirty.entry(number).or_default();
        versions.push(version);
        if versions.len() > MAX_VERSIONS {
            let first = versions.remove(0);
            versions[0].sectors |= first.sectors;
        }
    }

    fn note_length(&mut self, len: u64, step: u64) {
        self.cache.len = len;
        self.lengths.push((step, len));
        if self.lengths.len() > MAX_LENGTHS {
            let mut kept = false;
            self.lengths.retain(|(at, _)| {
                kept = !kept || *at == step;
                kept
            });
        }
    }

    /// Makes what survives of the changes durable, and forgets the others.
    fn write_back(&mut self, survival: Survival, rng: &mut SmallRng) {
        for (number, versions) in std::mem::take(&mut self.dirty) {
            for (sectors, upto) in survivors(&versions, survival, rng) {
                for version in &versions[..upto] {
                    self.durable.put(number, version.sectors & sectors, version.page.as_ref());
                }
            }
        }
        let lengths = std::mem::take(&mut self.lengths);
        let kept = match survival {
            Survival::Nothing => 0,
            Survival::Everything => lengths.len(),
            Survival::UpTo(last) => lengths.partition_point(|(step, _)| *step <= last),
            // The last length shows the holes that lost pages leave.
            Survival::Torn if rng.random_bool(0.5) => lengths.len(),
            Survival::Torn => rng.random_range(0..=lengths.len()),
        };
        if let Some((_, len)) = kept.checked_sub(1).map(|last| lengths[last]) {
            self.durable.len = len;
        }
        self.durable.trim();
    }
}

/// For each group of sectors of a page, how many of its versions reach the disk.
fn survivors(versions: &[Version], survival: Survival, rng: &mut SmallRng) -> Vec<(Sectors, usize)> {
    let all = versions.len();
    match survival {
        Survival::Nothing => Vec::new(),
        Survival::Everything => vec![(ALL_SECTORS, all)],
        Survival::UpTo(last) => vec![(ALL_SECTORS, versions.partition_point(|version| version.step <= last))],
        Survival::Torn => match rng.random_range(0..4) {
            0 => Vec::new(),
            1 => vec![(ALL_SECTORS, all)],
            2 => vec![(ALL_SECTORS, rng.random_range(0..=all))],
            _ => (0..8).map(|sector| (1 << sector, rng.random_range(0..=all))).collect(),
        },
    }
}
