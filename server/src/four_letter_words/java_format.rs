//! Values as Java prints them, which is what parsers of four-letter words expect.

use std::net::{IpAddr, SocketAddr};

/// A decimal as Java prints a rounded double: one to four digits after the point.
pub fn decimal(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

/// An address as Java prints it: no name before the slash, and an IPv6 address in full.
pub(crate) fn endpoint(addr: SocketAddr) -> String {
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => format!("/{ip}:{}", addr.port()),
        IpAddr::V6(ip) => {
            let groups = ip.segments().map(|group| format!("{group:x}"));
            format!("/[{}]:{}", groups.join(":"), addr.port())
        }
    }
}

/// A time, in milliseconds since the Unix epoch, as Java's `Date` prints it in the time zone UTC.
pub(crate) fn date(millis: i64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = millis.div_euclid(1000);
    let (year, month, day) = civil_date(seconds);
    let name = |names: &[&'static str], at: i64| usize::try_from(at).map_or("", |at| names[at]);
    let (weekday, month) = (name(&WEEKDAYS, seconds.div_euclid(DAY).rem_euclid(7)), name(&MONTHS, month - 1));
    let time = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{weekday} {month} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}")
}

/// A time, in seconds since the Unix epoch, as ZooKeeper prints when it was built.
pub(crate) fn build_date(seconds: i64) -> String {
    let (year, month, day) = civil_date(seconds);
    let time = seconds.rem_euclid(DAY);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", time / 3600, time / 60 % 60)
}

const DAY: i64 = 86_400;

/// Year, month and day of a time in seconds since the Unix epoch.
fn civil_date(seconds: i64) -> (i64, i64, i64) {
    // Counted from 1 March of the year 0, so that a leap day is the last day of its year, and the lengths of months repeat every
    // five. An era is 400 years.
    let since = seconds.div_euclid(DAY) + 719_468;
    let (era, day_of_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    (era * 400 + year_of_era + i64::from(month >= 10), (month + 2) % 12 + 1, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_printed_as_java_prints_them() {
        assert_eq!([0.0, 2.0, 2.6667, 1.5].map(decimal), ["0.0", "2.0", "2.6667", "1.5"]);
    }

    #[test]
    fn dates_are_printed_as_java_prints_them() {
        let dates = [0, 951_782_399_999, 951_782_400_000, 1_795_162_880_123, 4_107_542_400_000];
        let expected = [
            "Thu Jan 01 00:00:00 UTC 1970",
            "Mon Feb 28 23:59:59 UTC 2000",
            "Tue Feb 29 00:00:00 UTC 2000",
            "Fri Nov 20 08:21:20 UTC 2026",
            "Mon Mar 01 00:00:00 UTC 2100",
        ];
        assert_eq!(dates.map(date), expected);
    }

    #[test]
    fn the_date_of_a_build_is_printed_as_apache_prints_it() {
        let dates = [0, 951_868_799, 1_770_841_080, 4_107_542_400];
        let expected =
            ["1970-01-01 00:00 UTC", "2000-02-29 23:59 UTC", "2026-02-11 20:18 UTC", "2100-03-01 00:00 UTC"];
        assert_eq!(dates.map(build_date), expected);
    }

    #[test]
    fn addresses_are_printed_as_java_prints_them() {
        let printed = |addr: &str| endpoint(addr.parse().unwrap());
        assert_eq!(printed("127.0.0.1:80"), "/127.0.0.1:80");
        assert_eq!(printed("[::ffff:127.0.0.1]:80"), "/127.0.0.1:80");
        assert_eq!(printed("[2001:db8::1]:80"), "/[2001:db8:0:0:0:0:0:1]:80");
    }
}
