//! Audit lines as Apache ZooKeeper writes them: fields with tabs between them, and no message.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{DefaultFields, Format, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent};
use tracing_subscriber::registry::LookupSpan;

/// The target of the events.
pub(super) const TARGET: &str = "audit";

/// The usual format of lines, but for those of the audit.
pub(super) struct WithAudit(pub(super) Format);

impl<S: Subscriber + for<'a> LookupSpan<'a>> FormatEvent<S, DefaultFields> for WithAudit {
    fn format_event(
        &self,
        context: &FmtContext<'_, S, DefaultFields>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        if metadata.target() != TARGET {
            return self.0.format_event(context, out, event);
        }
        SystemTime.format_time(&mut out)?;
        write!(out, " {:>5} {TARGET}: ", metadata.level())?;
        let mut fields = Fields { out, first: true, outcome: Ok(()) };
        event.record(&mut fields);
        fields.outcome?;
        fields.out.write_char('\n')
    }
}

/// Writes each field as it comes.
struct Fields<'w> {
    out: Writer<'w>,
    first: bool,
    outcome: fmt::Result,
}

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: &str) {
        let tab = if std::mem::take(&mut self.first) { "" } else { "\t" };
        let written = write!(self.out, "{tab}{}=", field.name()).and_then(|()| self.put_value(value));
        self.outcome = self.outcome.and(written);
    }

    /// A tab or the end of a line in a name would forge a field. Backslashes stay: names of certificates have them.
    fn put_value(&mut self, value: &str) -> fmt::Result {
        value.chars().try_for_each(|c| match c {
            '\u{2028}' | '\u{2029}' => write!(self.out, "{}", c.escape_default()),
            _ if c.is_control() => write!(self.out, "{}", c.escape_default()),
            _ => self.out.write_char(c),
        })
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, &format!("{value:?}"));
    }
}
