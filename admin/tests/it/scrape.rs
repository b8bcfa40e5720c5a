//! A text for Prometheus, taken apart.

use std::collections::BTreeMap;

/// The samples of a text, and its families with their kinds.
#[derive(Debug, Default)]
pub struct Scrape {
    /// By name and labels, as they are written.
    pub samples: BTreeMap<String, f64>,
    /// Name, kind and the quantiles of its samples.
    pub families: BTreeMap<String, (String, Vec<String>)>,
}

impl Scrape {
    /// Panics on a line that is not in the form of simpleclient.
    pub fn parse(text: &str) -> Self {
        let mut scrape = Self::default();
        let mut family = String::new();
        let mut lines = text.lines().peekable();
        assert!(text.ends_with('\n') || text.is_empty());
        while let Some(line) = lines.next() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, _) = help.split_once(' ').expect("a help text");
                family = name.to_owned();
                let kind = lines
                    .next()
                    .and_then(|line| line.strip_prefix("# TYPE "))
                    .expect("a type after the help");
                let (of, kind) = kind.split_once(' ').expect("a kind");
                assert_eq!(of, name);
                let old = scrape.families.insert(of.to_owned(), (kind.to_owned(), Vec::new()));
                assert!(old.is_none(), "{of} is there twice");
                continue;
            }
            let (sample, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            let name = sample.split('{').next().expect("a name");
            let suffix = name.strip_prefix(&family).unwrap_or_else(|| panic!("{line} in {family}"));
            assert!(["", "_count", "_sum"].contains(&suffix), "{line}");
            if let Some(labels) = sample.strip_prefix(name).filter(|labels| !labels.is_empty()) {
                assert!(labels.starts_with('{') && labels.ends_with(",}"), "{line}");
                if let Some((_, quantile)) = labels.split_once("quantile=\"") {
                    let quantile = quantile.trim_end_matches("\",}").to_owned();
                    let (_, quantiles) = scrape.families.get_mut(&family).expect("a family");
                    if !quantiles.contains(&quantile) {
                        quantiles.push(quantile);
                    }
                }
            }
            let value =
                if value == "NaN" { f64::NAN } else { value.parse().unwrap_or_else(|_| panic!("{line}")) };
            assert!(scrape.samples.insert(sample.to_owned(), value).is_none(), "{sample} is there twice");
        }
        scrape
    }

    /// The samples that are not 0 or NaN, less what they were `before`; without quantiles, which do not add up.
    pub fn since(&self, before: &Self) -> BTreeMap<&str, f64> {
        let moved =
            self.samples.iter().filter(|(sample, _)| !sample.contains("quantile=")).map(|(sample, value)| {
                let old = before.samples.get(sample).copied().unwrap_or_default();
                (&**sample, value - old)
            });
        moved.filter(|(_, change)| *change != 0.0).collect()
    }

    /// The families in the form of `families-3.9.5.txt`.
    pub fn list(&self) -> Vec<String> {
        let line = |(name, (kind, quantiles)): (&String, &(String, Vec<String>))| {
            let words = [name, kind].into_iter().chain(quantiles).map(|word| &**word);
            words.collect::<Vec<_>>().join(" ")
        };
        self.families.iter().map(line).collect()
    }
}
