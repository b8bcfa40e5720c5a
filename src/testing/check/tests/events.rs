//! Damage to watch events.

use super::*;

#[test]
fn an_event_behind_the_reply_that_shows_its_change_is_found() {
    let rule = broken_by(|case| {
        let at = case.event_at(A, EventType::NodeDataChanged, "/a");
        case.shift(at, case.reply_at(A, 3) + 1);
    });
    assert_eq!(rule, Rule::EventBeforeReply);
}

#[test]
fn an_event_that_does_not_come_is_found() {
    let owed =
        [(EventType::NodeDataChanged, "/a"), (EventType::NodeCreated, "/w"), (EventType::NodeDeleted, "/e")];
    for (kind, path) in owed {
        let rule = broken_by(|case| _ = case.entries.remove(case.event_at(A, kind, path)));
        assert_eq!(rule, Rule::EventOwed, "{kind:?} {path}");
    }
    // The second of two that the watch sees, of a multi and of a single write.
    for number in 0..2 {
        let rule = broken_by(|case| {
            let events = case.entries.iter().enumerate().filter(|(_, entry)| {
                matches!(&entry.what, HistoryEvent::Event(_, event) if event.kind == EventType::NodeChildrenChanged && entry.conn == A)
            });
            let at = events.map(|(at, _)| at).nth(number).expect("an event");
            case.entries.remove(at);
        });
        assert_eq!(rule, Rule::EventOwed, "children of /w, {number}");
    }
}

#[test]
fn an_event_that_nobody_asked_for_is_found() {
    // For somebody else.
    let rule = broken_by(|case| {
        let at = case.event_at(A, EventType::NodeCreated, "/w");
        let event = HistoryEntry { conn: B, ..case.entries[at].clone() };
        case.entries.insert(case.request_at(B, 4) + 1, event);
    });
    assert_eq!(rule, Rule::EventUnasked);
    // Twice, of a watch that tells once.
    let rule = broken_by(|case| {
        let at = case.event_at(A, EventType::NodeDataChanged, "/a");
        case.entries.insert(at, case.entries[at].clone());
    });
    assert_eq!(rule, Rule::EventUnasked);
    // Of a later change, when the watch has told an earlier one.
    let rule = broken_by(|case| {
        let at = case.event_at(A, EventType::NodeDataChanged, "/a");
        let HistoryEvent::Event(_, event) = case.entries[at].what.clone() else { panic!("no event") };
        let at = case.event_at(A, EventType::NodeCreated, "/w");
        let again = HistoryEntry { what: HistoryEvent::Event(Zxid(7), event), ..case.entries[at].clone() };
        case.entries.insert(at, again);
    });
    assert_eq!(rule, Rule::EventUnasked);
}

#[test]
fn an_event_that_tells_something_else_is_found() {
    let rule = broken_by(|case| {
        let at = case.event_at(A, EventType::NodeDeleted, "/e");
        if let HistoryEvent::Event(_, event) = &mut case.entries[at].what {
            event.kind = EventType::NodeDataChanged;
        }
    });
    assert_eq!(rule, Rule::EventUnasked);
}

#[test]
fn the_events_of_a_multi_come_in_the_order_of_its_parts() {
    let rule = broken_by(|case| {
        let one = case.event_at(A, EventType::NodeCreated, "/w");
        let other = case.event_at(A, EventType::NodeChildrenChanged, "/w");
        case.entries.swap(one, other);
    });
    assert!([Rule::EventOwed, Rule::EventUnasked].contains(&rule), "{rule}");
}

#[test]
fn an_event_before_the_reply_that_sets_its_watch_is_found() {
    let rule = broken_by(|case| {
        let at = case.event_at(A, EventType::NodeDataChanged, "/a");
        case.shift(at, case.reply_at(A, 2));
    });
    assert_eq!(rule, Rule::ZxidsNeverFall);
}

#[test]
fn what_a_new_connection_has_missed_is_told_exactly() {
    let missed = |case: &Case| case.event_at(AGAIN, EventType::NodeChildrenChanged, "/w");
    // Not told.
    assert_eq!(broken_by(|case| _ = case.entries.remove(missed(case))), Rule::CatchUp);
    // Told as something else.
    let rule = broken_by(|case| {
        let at = missed(case);
        if let HistoryEvent::Event(_, event) = &mut case.entries[at].what {
            event.kind = EventType::NodeDeleted;
        }
    });
    assert_eq!(rule, Rule::CatchUp);
    // Told behind the reply.
    let rule = broken_by(|case| {
        let at = missed(case);
        case.shift(at, case.reply_at(AGAIN, Xid::SET_WATCHES.0) + 1);
    });
    assert_eq!(rule, Rule::CatchUp);
    // Told to whom nothing was set again.
    let rule = broken_by(|case| {
        let event = case.entries[missed(case)].clone();
        let at = case.reply_at(A, 12);
        case.entries.insert(at, HistoryEntry { conn: A, ..event });
    });
    assert_eq!(rule, Rule::CatchUp);
}

#[test]
fn an_event_that_was_on_its_way_at_the_end_is_not_missed() {
    let mut case = good();
    // The history ends before the last answers to A.
    let at = case.event_at(A, EventType::NodeDeleted, "/e");
    case.entries.truncate(at);
    assert_eq!(case.rules()[1], None);
    // Or between the two events of the multi.
    let mut case = good();
    let at = case.event_at(A, EventType::NodeChildrenChanged, "/w");
    case.entries.truncate(at);
    case.txns.truncate(7);
    assert_eq!(case.event_at(A, EventType::NodeCreated, "/w"), at - 1);
    assert_eq!(case.rules()[1], None);
}
