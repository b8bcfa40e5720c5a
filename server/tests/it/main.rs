//! The server by raw frames and four-letter words.

mod four_letter_words;
mod metrics_page;
