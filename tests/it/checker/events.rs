//! Damage to watch events.

use super::*;

#[test]
fn an_event_after_a_reply_that_shows_its_change_is_detected() {
    let rule = broken_by(|case| {
        let at = case.event_at(A, EventType::NodeDataChanged, "/a");
        case.shift(at, case.reply_at(A, 3) + 1);
    });
    assert_eq!(rule, Rule::EventBeforeReply);
}

#[test]
fn a_missing_event_is_detected() {
    let expected =
        [(EventType::NodeDataChanged, "/a"), (EventType::NodeCreated, "/w"), (EventType::NodeDeleted, "/e")];
    for (kind, path) in expected {
        let rule = broken_by(|case| _ = case.entries.remove(case.event_at(A, kind, path)));
        assert_eq!(rule, Rule::EventDelivered, "{kind:?} {path}");
    }
    // The second of two events of one watch: of a multi, and of a single write.
    for number in 0..2 {
        let rule = broken_by(|case| {
            let events = case.entries.iter().enumerate().filter(|(_, entry)| {
                matches!(&entry.event, HistoryEvent::Event(_, event) if event.kind == EventType::NodeChildrenChanged && entry.conn == A)
            });
            let at = events.map(|(at, _)| at).nth(number).expect("an event");
            case.entries.remove(at);
        });
        assert_eq!(rule, Rule::EventDelivered, "children of /w, {number}");
    }
}

#[test]
fn an_event_without_a_watch_is_detected() {
    // On another connection.
    let rule = broken_by(|case| {
        let at = case.event_at(A, EventType::NodeCreated, "/w");
        let event = HistoryEntry { conn: B, ..case.entries[at].clone() };
        case.entries.insert(case.request_at(B, 4) + 1, event);
    });
    assert_eq!(rule, Rule::EventExpected);
    // A second event of a one-shot watch.
    let rule = broken_by(|case| {
        let at = case.event_at(A, EventType::NodeDataChanged, "/a");
        case.entries.insert(at, case.entries[at].clone());
    });
    assert_eq!(rule, Rule::EventExpected);
    // An event of a later change, after the one-shot watch has fired.
    let rule = broken_by(|case| {
        let at = case.event_at(A, EventType::NodeDataChanged, "/a");
        let HistoryEvent::Event(_, event) = case.entries[at].event.clone() else { panic!("no event") };
        let at = case.event_at(A, EventType::NodeCreated, "/w");
        let again = HistoryEntry { event: HistoryEvent::Event(Zxid(7), event), ..case.entries[at].clone() };
        case.entries.insert(at, again);
    });
    assert_eq!(rule, Rule::EventExpected);
}

#[test]
fn an_event_of_the_wrong_type_is_detected() {
    let rule = broken_by(|case| {
        let at = case.event_at(A, EventType::NodeDeleted, "/e");
        if let HistoryEvent::Event(_, event) = &mut case.entries[at].event {
            event.kind = EventType::NodeDataChanged;
        }
    });
    assert_eq!(rule, Rule::EventExpected);
}

#[test]
fn the_events_of_a_multi_come_in_the_order_of_its_parts() {
    let rule = broken_by(|case| {
        let one = case.event_at(A, EventType::NodeCreated, "/w");
        let other = case.event_at(A, EventType::NodeChildrenChanged, "/w");
        case.entries.swap(one, other);
    });
    assert!([Rule::EventDelivered, Rule::EventExpected].contains(&rule), "{rule}");
}

#[test]
fn an_event_before_the_reply_that_sets_its_watch_is_detected() {
    let rule = broken_by(|case| {
        let at = case.event_at(A, EventType::NodeDataChanged, "/a");
        case.shift(at, case.reply_at(A, 2));
    });
    assert_eq!(rule, Rule::ZxidsNeverFall);
}

#[test]
fn a_new_connection_gets_exactly_the_events_it_missed() {
    let missed = |case: &Case| case.event_at(B_AGAIN, EventType::NodeChildrenChanged, "/w");
    // A missing event.
    assert_eq!(broken_by(|case| _ = case.entries.remove(missed(case))), Rule::CatchUp);
    // An event of the wrong type.
    let rule = broken_by(|case| {
        let at = missed(case);
        if let HistoryEvent::Event(_, event) = &mut case.entries[at].event {
            event.kind = EventType::NodeDeleted;
        }
    });
    assert_eq!(rule, Rule::CatchUp);
    // An event after the reply.
    let rule = broken_by(|case| {
        let at = missed(case);
        case.shift(at, case.reply_at(B_AGAIN, Xid::SET_WATCHES.0) + 1);
    });
    assert_eq!(rule, Rule::CatchUp);
    // An event on a connection that restored no watch.
    let rule = broken_by(|case| {
        let event = case.entries[missed(case)].clone();
        let at = case.reply_at(A, 12);
        case.entries.insert(at, HistoryEntry { conn: A, ..event });
    });
    assert_eq!(rule, Rule::CatchUp);
}

#[test]
fn an_event_in_flight_at_the_end_may_be_missing() {
    let mut case = valid();
    // The history ends before the last replies to A.
    let at = case.event_at(A, EventType::NodeDeleted, "/e");
    case.entries.truncate(at);
    assert_eq!(case.rules()[1], None);
    // Or between the two events of the multi.
    let mut case = valid();
    let at = case.event_at(A, EventType::NodeChildrenChanged, "/w");
    case.entries.truncate(at);
    case.txns.truncate(7);
    assert_eq!(case.event_at(A, EventType::NodeCreated, "/w"), at - 1);
    assert_eq!(case.rules()[1], None);
}
