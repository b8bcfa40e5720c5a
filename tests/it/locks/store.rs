//! What a lock protects: a count in ZooKeeper, and one in a store outside that looks at fencing tokens.

/// The znode of the count: the number of writes so far, and the token of the last one.
pub const STORE: &str = "/store";

/// What is in [`STORE`].
pub fn parse(data: &[u8]) -> (u64, u64) {
    let text = std::str::from_utf8(data).expect("text");
    let (count, token) = text.split_once(' ').expect("a count and a token");
    (count.parse().expect("a count"), token.parse().expect("a token"))
}

/// A store outside of ZooKeeper that keeps the highest token it has seen and refuses lower ones.
#[derive(Debug, Default)]
pub struct Outside {
    highest: u64,
    count: u64,
    /// The token and the count of every write that was taken.
    taken: Vec<(u64, u64)>,
    pub refused: u64,
}

impl Outside {
    /// A new holder writes its token before it reads; false if it was refused.
    pub fn open(&mut self, token: u64) -> bool {
        let good = token >= self.highest;
        self.highest = self.highest.max(token);
        self.refused += u64::from(!good);
        good
    }

    pub fn read(&self) -> u64 {
        self.count
    }

    /// Replaces the count; false if the token is too low.
    pub fn write(&mut self, token: u64, count: u64) -> bool {
        let good = self.open(token);
        if good {
            self.count = count;
            self.taken.push((token, count));
        }
        good
    }

    /// Whether it is as if all writes had been made one after another by one holder after another.
    pub fn judge(&self) {
        let mut last = 0;
        for ((token, count), expected) in self.taken.iter().zip(1..) {
            assert_eq!(*count, expected, "a write to the store outside was lost: {:?}", self.taken);
            assert!(*token >= last, "a token follows a higher one: {:?}", self.taken);
            last = *token;
        }
    }
}
