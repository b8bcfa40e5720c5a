//! [`Content`]: the bytes of a file in pages, of which those that hold only zeros cost nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const PAGE: u64 = 4096;
pub(crate) const SECTOR: u64 = 512;

pub(crate) type Page = [u8; PAGE as usize];

/// Which sectors of a page, a bit for each.
pub(crate) type Sectors = u8;

pub(crate) const ALL_SECTORS: Sectors = u8::MAX;

/// The bytes of a file. A page that is absent holds zeros, and so does what is after the end in the last page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    pub(crate) len: u64,
    pub(crate) pages: BTreeMap<u64, Arc<Page>>,
}

impl Content {
    /// Reads bytes from `offset` on, and returns how many.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let wanted = (self.len.saturating_sub(offset)).min(buffer.len() as u64) as usize;
        let mut buffer = &mut buffer[..wanted];
        let mut offset = offset;
        while !buffer.is_empty() {
            let at = (offset % PAGE) as usize;
            let n = buffer.len().min(PAGE as usize - at);
            let (piece, rest) = buffer.split_at_mut(n);
            match self.pages.get(&(offset / PAGE)) {
                Some(page) => piece.copy_from_slice(&page[at..at + n]),
                None => piece.fill(0),
            }
            (buffer, offset) = (rest, offset + n as u64);
        }
        wanted
    }

    /// The numbers of the pages that reach beyond `len` and are not absent.
    pub(crate) fn pages_beyond(&self, len: u64) -> impl Iterator<Item = u64> {
        self.pages.range(len / PAGE..).map(|(number, _)| *number)
    }

    /// Puts the marked sectors of `from`, zeros if that is absent, into a page.
    pub(crate) fn put(&mut self, number: u64, sectors: Sectors, from: Option<&Arc<Page>>) {
        match (sectors, from) {
            (0, _) => {}
            (ALL_SECTORS, Some(from)) => _ = self.pages.insert(number, Arc::clone(from)),
            (ALL_SECTORS, None) => _ = self.pages.remove(&number),
            (_, None) if !self.pages.contains_key(&number) => {}
            _ => {
                let page = Arc::make_mut(self.pages.entry(number).or_insert_with(zeros));
                for sector in (0..8).filter(|sector| sectors & 1 << sector != 0) {
                    let range = sector * SECTOR as usize..(sector + 1) * SECTOR as usize;
                    match from {
                        Some(from) => page[range.clone()].copy_from_slice(&from[range]),
                        None => page[range].fill(0),
                    }
                }
            }
        }
    }

    /// Makes everything after the end zeros.
    pub(crate) fn trim(&mut self) {
        let kept = self.len.div_ceil(PAGE);
        if self.pages.last_key_value().is_some_and(|(last, _)| *last >= kept) {
            self.pages.split_off(&kept);
        }
        let cut = (self.len % PAGE) as usize;
        if let (Some(page), true) = (self.pages.get_mut(&(self.len / PAGE)), cut != 0) {
            if page[cut..].iter().any(|byte| *byte != 0) {
                Arc::make_mut(page)[cut..].fill(0);
            }
        }
    }
}

pub(crate) fn zeros() -> Arc<Page> {
    Arc::new([0; PAGE as usize])
}

/// The sectors that the bytes of `range`, offsets within a page, are in.
pub(crate) fn sectors(range: std::ops::Range<usize>) -> Sectors {
    let (first, last) = (range.start / SECTOR as usize, range.end.div_ceil(SECTOR as usize));
    (first..last).fold(0, |sectors, sector| sectors | 1 << sector)
}
