use super::*;

/// A history, operation by operation: each begins after the one before has ended, unless it is moved.
#[derive(Default)]
struct History(Vec<RegisterOp>);

impl History {
    fn add(&mut self, client: usize, call: Call, outcome: Option<CallOutcome>) -> &mut Self {
        let at = self.0.len() as u64 * 2;
        self.0.push(RegisterOp { client, session: 1, began: at, ended: at + 1, call, outcome });
        self
    }

    fn set(&mut self, client: usize, value: &str, mzxid: i64, version: i32) -> &mut Self {
        let call = Call::Set { register: 0, value: value.to_owned(), version: -1 };
        self.add(client, call, Some(state(value, mzxid, version)))
    }

    fn lost_set(&mut self, client: usize, value: &str) -> &mut Self {
        self.add(client, Call::Set { register: 0, value: value.to_owned(), version: -1 }, None)
    }

    fn get(&mut self, client: usize, synced: bool, value: &str, mzxid: i64, version: i32) -> &mut Self {
        self.add(client, Call::Get { register: 0, synced }, Some(state(value, mzxid, version)))
    }

    fn create(&mut self, client: usize, name: &str) -> &mut Self {
        self.add(client, Call::Create { name: name.to_owned() }, Some(CallOutcome::Done))
    }

    fn delete(&mut self, client: usize, name: &str) -> &mut Self {
        self.add(client, Call::Delete { name: name.to_owned() }, Some(CallOutcome::Done))
    }

    fn list(&mut self, client: usize, names: &[&str]) -> &mut Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.add(client, Call::List { synced: false }, Some(CallOutcome::Names(names)))
    }

    /// The last operation began when the one before it did.
    fn at_the_same_time(&mut self) -> &mut Self {
        let before = self.0[self.0.len() - 2].began;
        let last = self.0.last_mut().expect("an operation");
        (last.began, last.ended) = (before, last.ended);
        self
    }

    fn rule(&self, is_ensemble: bool) -> Option<Rule> {
        check(&self.0, is_ensemble).err().and_then(|error| error.rule())
    }
}

fn state(value: &str, mzxid: i64, version: i32) -> CallOutcome {
    CallOutcome::State(Register { value: value.to_owned(), mzxid, version })
}

fn history() -> History {
    History::default()
}

#[test]
fn a_read_that_shows_what_was_before_an_ended_write_is_stale() {
    let mut history = history();
    history.set(0, "a", 5, 1).set(0, "b", 6, 2).get(1, false, "a", 5, 1);
    assert_eq!(history.rule(false), Some(Rule::FreshRead));
    // Of an ensemble, another session may see the past, unless it syncs.
    assert_eq!(history.rule(true), None);
    history.get(1, true, "a", 5, 1);
    assert_eq!(history.rule(true), Some(Rule::FreshRead));
}

#[test]
fn a_read_beside_a_write_may_show_either() {
    let before =
        history().set(0, "a", 5, 1).set(0, "b", 6, 2).get(1, false, "a", 5, 1).at_the_same_time().rule(false);
    assert_eq!(before, None);
}

#[test]
fn a_session_never_goes_back_in_time() {
    let mut history = history();
    history.set(0, "a", 5, 1).set(0, "b", 6, 2).get(1, false, "b", 6, 2).get(1, false, "a", 5, 1);
    assert_eq!(history.rule(true), Some(Rule::FreshRead));
}

#[test]
fn a_write_that_a_later_one_does_not_count_is_lost() {
    assert_eq!(history().set(0, "a", 5, 1).set(1, "b", 6, 1).rule(false), Some(Rule::NoLostWrite));
    assert_eq!(history().set(0, "a", 5, 1).set(1, "b", 6, 2).rule(false), None);
}

#[test]
fn a_version_that_nobody_wrote_needs_a_write_without_an_answer() {
    assert_eq!(history().set(0, "a", 5, 1).set(1, "c", 7, 3).rule(false), Some(Rule::CountedVersions));
    assert_eq!(history().set(0, "a", 5, 1).lost_set(1, "b").set(1, "c", 7, 3).rule(false), None);
}

#[test]
fn the_first_state_that_is_seen_counts_the_writes_before_it_as_well() {
    assert_eq!(history().set(0, "a", 5, 2).rule(false), Some(Rule::CountedVersions));
    assert_eq!(history().lost_set(1, "b").set(0, "a", 5, 2).rule(false), None);
    assert_eq!(history().set(0, "a", 5, 0).rule(false), Some(Rule::NoLostWrite));
    assert_eq!(history().get(0, false, "", 4, 0).set(0, "a", 5, 1).rule(false), None);
}

#[test]
fn a_register_is_empty_only_before_the_first_write() {
    assert_eq!(history().set(0, "a", 5, 1).get(0, false, "", 6, 2).rule(false), Some(Rule::KnownValue));
}

#[test]
fn what_was_read_was_written() {
    assert_eq!(history().get(0, false, "x", 5, 1).rule(false), Some(Rule::KnownValue));
    assert_eq!(history().lost_set(1, "x").get(0, false, "x", 5, 1).rule(false), None);
    assert_eq!(
        history().set(0, "a", 5, 1).lost_set(1, "b").get(1, false, "b", 5, 1).rule(false),
        Some(Rule::OneValue)
    );
}

#[test]
fn a_write_comes_after_those_that_had_ended() {
    assert_eq!(history().set(0, "a", 6, 2).set(1, "b", 5, 1).rule(true), Some(Rule::WriteOrder));
    // What another client has read was committed.
    let mut read = history();
    read.lost_set(0, "a").get(1, false, "a", 6, 2).set(2, "b", 5, 1);
    assert_eq!(read.rule(true), Some(Rule::WriteOrder));
}

#[test]
fn a_write_for_a_version_is_done_at_that_version() {
    let call = Call::Set { register: 0, value: "a".to_owned(), version: 3 };
    assert_eq!(
        history().add(0, call.clone(), Some(state("a", 5, 9))).rule(false),
        Some(Rule::ExpectedVersion)
    );
    let mut right = history();
    right.lost_set(1, "x").lost_set(1, "y").lost_set(1, "z").add(0, call, Some(state("a", 5, 4)));
    assert_eq!(right.rule(false), None);
}

#[test]
fn a_list_has_what_was_created_and_not_deleted() {
    assert_eq!(history().create(0, "x").list(1, &["x"]).delete(0, "x").list(1, &[]).rule(false), None);
    assert_eq!(history().create(0, "x").list(1, &[]).rule(false), Some(Rule::NoLostCreate));
    assert_eq!(history().create(0, "x").delete(0, "x").list(1, &["x"]).rule(false), Some(Rule::NoLostDelete));
    assert_eq!(history().list(1, &["x"]).rule(false), Some(Rule::KnownName));
    let call = Call::Delete { name: "x".to_owned() };
    assert_eq!(
        history().create(0, "x").add(0, call, Some(CallOutcome::Missing)).rule(true),
        Some(Rule::NoLostCreate)
    );
    // Only its own session sees it at once in an ensemble.
    assert_eq!(history().create(0, "x").list(1, &[]).rule(true), None);
    assert_eq!(history().create(0, "x").list(0, &[]).rule(true), Some(Rule::NoLostCreate));
    // Its deletion is under way.
    let racing = history().create(0, "x").delete(0, "x").list(1, &[]).at_the_same_time().rule(false);
    assert_eq!(racing, None);
}

#[test]
fn what_the_clients_work_on_is_always_there() {
    let get = |synced| Call::Get { register: 0, synced };
    let set = Call::Set { register: 0, value: "a".to_owned(), version: -1 };
    let create = Call::Create { name: "x".to_owned() };
    let cases = [
        (get(false), false),
        (get(true), true),
        (set, true),
        (create, true),
        (Call::List { synced: false }, false),
        (Call::List { synced: true }, true),
    ];
    for (call, is_certain) in cases {
        let mut history = history();
        history.add(0, call.clone(), Some(CallOutcome::Missing));
        assert_eq!(history.rule(false), Some(Rule::NoLostCreate), "{call:?}");
        // A server of an ensemble may not have it yet.
        assert_eq!(history.rule(true), is_certain.then_some(Rule::NoLostCreate), "{call:?}");
    }
}

#[test]
fn a_delete_without_an_answer_may_have_been_done() {
    let lost = |name: &str| (Call::Delete { name: name.to_owned() }, None);
    // The list may have the name, and need not.
    for names in [&["a"][..], &[]] {
        let mut history = history();
        let (call, outcome) = lost("a");
        history.create(1, "a").add(1, call, outcome).list(2, names);
        assert_eq!(history.rule(false), None, "{names:?}");
    }
    // A create likewise.
    for names in [&["a"][..], &[]] {
        let mut history = history();
        history.add(1, Call::Create { name: "a".to_owned() }, None).list(2, names);
        assert_eq!(history.rule(false), None, "{names:?}");
    }
    // One that found nothing to delete has lost the create.
    let mut history = history();
    history.create(1, "a").add(1, Call::Delete { name: "a".to_owned() }, Some(CallOutcome::Missing));
    assert_eq!(history.rule(false), Some(Rule::NoLostCreate));
}
