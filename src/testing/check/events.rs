//! Watches as the replay goes on: what sets and removes them, and whether the events they owe have come.

use std::collections::BTreeMap;

use zoolet_proto::records::{SetWatches2, WatchedEvent};
use zoolet_proto::{AddWatchMode, ErrorCode, EventType, KeeperState, Reply, Request, WatcherType, Zxid};

use super::operations::{Line, Op, Told, broken};
use super::replay::Replay;
use super::violation::{CheckError, Rule};
use super::watches::{Found, Kind, Owed};

impl Replay<'_, '_> {
    /// Holds the events that arrived against those that the latest transaction owes.
    ///
    /// # Errors
    /// An event that is owed and did not come, or came to somebody it is not owed to.
    pub(super) fn tell(&mut self, zxid: Zxid, in_any_order: bool) -> Result<(), CheckError> {
        let all = self.all;
        // A connection that showed nothing so late has ended before, or the history has.
        let alive = |line: usize| all.lines[line].latest() >= zxid;
        let mut owed: BTreeMap<usize, Vec<Owed>> = BTreeMap::new();
        for change in self.model.changes() {
            for event in self.watches.trigger(change, &alive) {
                owed.entry(event.line).or_default().push(event);
            }
        }
        owed.into_iter().try_for_each(|(line, owed)| self.account(line, zxid, owed, in_any_order))
    }

    /// That no event of a transaction before `zxid` is left.
    pub(super) fn nothing_unasked(&self, line: usize, zxid: Zxid) -> Result<(), CheckError> {
        match self.all.lines[line].events.get(self.told[line]) {
            Some(told) if told.zxid < zxid => Err(self.unasked(line, told)),
            _ => Ok(()),
        }
    }

    fn unasked(&self, line: usize, told: &Told<'_>) -> CheckError {
        let event = self.all.name_event(line, told.zxid, told.event);
        broken(Rule::EventUnasked, event, None, "none of the kind on this connection", "it")
    }

    fn account(
        &mut self,
        line: usize,
        zxid: Zxid,
        mut owed: Vec<Owed>,
        in_any_order: bool,
    ) -> Result<(), CheckError> {
        self.nothing_unasked(line, zxid)?;
        let Line { events, replied, told, .. } = &self.all.lines[line];
        let mut missing = Vec::new();
        while let Some(event) = events.get(self.told[line]).filter(|event| event.zxid == zxid) {
            let at = owed.iter().position(|owed| is_told(owed, event.event));
            let at = at.ok_or_else(|| self.unasked(line, event))?;
            if in_any_order {
                owed.remove(at);
            } else {
                missing.extend(owed.drain(..=at).take(at));
            }
            self.told[line] += 1;
        }
        // The rest may still be on its way, unless something came that can only stand behind it.
        let shown = replied.filter(|sight| sight.zxid >= zxid).or(told.filter(|sight| sight.zxid > zxid));
        if shown.is_some() {
            missing.append(&mut owed);
        }
        match missing.iter().find(|owed| !owed.doubtful) {
            Some(Owed { kind, path, by, .. }) => {
                let event =
                    WatchedEvent { kind: *kind, state: KeeperState::SyncConnected, path: path.clone() };
                let operation = self.all.name_event(line, zxid, &event);
                let seen = match shown {
                    Some(sight) => format!("zxid {} without it", sight.zxid),
                    None => "a later event of the same transaction without it".to_owned(),
                };
                let expected = "it, as this connection watches";
                Err(broken(Rule::EventOwed, operation, Some(self.all.name(*by)), expected, &seen))
            }
            None => Ok(()),
        }
    }

    /// Deals with a request that is about watches alone; false if it is none.
    pub(super) fn concerns_watches(&mut self, op: usize) -> Result<bool, CheckError> {
        let Op { line, request, answer, .. } = &self.all.ops[op];
        let (Some(request), Some(answer)) = (request, answer) else { return Ok(false) };
        match request {
            Request::AddWatch(add) => {
                let kind = add_watch(add.mode);
                let model = kind.map(|_| Reply::WatchAdded).ok_or(ErrorCode::MarshallingError);
                self.compare(Rule::WatchResult, op, model, answer.outcome)?;
                if let Some(kind) = kind {
                    self.watches.add(*line, add.path.as_deref().unwrap_or_default(), kind, op, false);
                }
            }
            Request::CheckWatches(check) => {
                self.find_watch(op, check.path.as_deref(), check.kind, false)?;
            }
            Request::RemoveWatches(remove) => {
                self.find_watch(op, remove.path.as_deref(), remove.kind, true)?;
            }
            Request::SetWatches(_) | Request::SetWatches2(_) => {
                self.compare(Rule::WatchResult, op, Ok(Reply::Empty), answer.outcome)?;
                self.set_again(op)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn find_watch(
        &mut self,
        op: usize,
        path: Option<&str>,
        kind: i32,
        remove: bool,
    ) -> Result<(), CheckError> {
        let Op { line, answer: Some(answer), .. } = &self.all.ops[op] else { return Ok(()) };
        let path = path.unwrap_or_default();
        let Some(kind) = WatcherType::from_code(kind) else {
            return self.compare(Rule::WatchResult, op, Err(ErrorCode::MarshallingError), answer.outcome);
        };
        match self.watches.find(*line, path, kind) {
            Found::Yes => self.compare(Rule::WatchResult, op, Ok(Reply::Empty), answer.outcome)?,
            Found::No => self.compare(Rule::WatchResult, op, Err(ErrorCode::NoWatcher), answer.outcome)?,
            Found::Perhaps => {}
        }
        if remove {
            self.watches.remove(*line, path, kind, false);
        }
        Ok(())
    }

    /// Sets the watch that a read leaves.
    pub(super) fn leave_watch(&mut self, op: usize, doubtful: bool) {
        let Op { line, request: Some(request), answer, .. } = &self.all.ops[op] else { return };
        let outcome = answer.as_ref().map(|answer| answer.outcome);
        let done = outcome.is_none_or(|outcome| outcome.is_ok());
        let (path, kind) = match request {
            // The only read that leaves a watch where there is no znode.
            Request::Exists(get) if get.watch && (done || outcome == Some(Err(ErrorCode::NoNode))) => {
                (&get.path, Kind::Data)
            }
            Request::GetData(get) if get.watch && done => (&get.path, Kind::Data),
            Request::GetChildren(get) | Request::GetChildren2(get) if get.watch && done => {
                (&get.path, Kind::Child)
            }
            _ => return,
        };
        self.watches.add(*line, path, kind, op, doubtful);
    }

    /// Does what a request about watches may have done whose reply was lost, on a connection that has gone on.
    pub(super) fn doubt(&mut self, op: usize) {
        self.leave_watch(op, true);
        let Op { line, request: Some(request), .. } = &self.all.ops[op] else { return };
        match request {
            Request::AddWatch(add) => {
                if let (Some(kind), Some(path)) = (add_watch(add.mode), &add.path) {
                    self.watches.add(*line, path, kind, op, true);
                }
            }
            Request::RemoveWatches(remove) => {
                if let (Some(kind), Some(path)) = (WatcherType::from_code(remove.kind), &remove.path) {
                    self.watches.remove(*line, path, kind, true);
                }
            }
            Request::SetWatches(_) | Request::SetWatches2(_) => {
                let set = all_five(request);
                let kinds = [Kind::Data, Kind::Data, Kind::Child, Kind::Persistent, Kind::Recursive];
                for (paths, kind) in
                    [set.data, set.exist, set.child, set.persistent, set.recursive].iter().zip(kinds)
                {
                    paths.iter().for_each(|path| self.watches.add(*line, path, kind, op, true));
                }
            }
            _ => {}
        }
    }

    /// Sets watches again. What has changed since must have been told at once, and is not watched.
    fn set_again(&mut self, op: usize) -> Result<(), CheckError> {
        let Op { line, request: Some(request), catch_up, .. } = &self.all.ops[op] else { return Ok(()) };
        let set = all_five(request);
        let since = set.relative_zxid;
        let mut owed: Vec<(EventType, &str)> = Vec::new();
        let mut watch = |path, kind| self.watches.add(*line, path, kind, op, false);
        for path in &set.data {
            match self.model.last_changed(path) {
                None => owed.push((EventType::NodeDeleted, path)),
                Some((mzxid, _)) if mzxid > since => owed.push((EventType::NodeDataChanged, path)),
                Some(_) => watch(path, Kind::Data),
            }
        }
        for path in &set.exist {
            match self.model.last_changed(path) {
                None => watch(path, Kind::Data),
                Some(_) => owed.push((EventType::NodeCreated, path)),
            }
        }
        for path in &set.child {
            match self.model.last_changed(path) {
                None => owed.push((EventType::NodeDeleted, path)),
                Some((_, pzxid)) if pzxid > since => owed.push((EventType::NodeChildrenChanged, path)),
                Some(_) => watch(path, Kind::Child),
            }
        }
        set.persistent.iter().for_each(|path| watch(path, Kind::Persistent));
        set.recursive.iter().for_each(|path| watch(path, Kind::Recursive));
        let told: Vec<_> = catch_up.iter().map(|event| (event.kind, event.path.as_str())).collect();
        if told == owed {
            return Ok(());
        }
        let (expected, seen) = (format!("{owed:?}"), format!("{told:?}"));
        Err(broken(Rule::CatchUp, self.all.name(op), None, &expected, &seen))
    }
}

fn is_told(owed: &Owed, event: &WatchedEvent) -> bool {
    (owed.kind, KeeperState::SyncConnected, &owed.path) == (event.kind, event.state, &event.path)
}

fn add_watch(mode: i32) -> Option<Kind> {
    AddWatchMode::from_code(mode).map(|mode| match mode {
        AddWatchMode::Persistent => Kind::Persistent,
        AddWatchMode::PersistentRecursive => Kind::Recursive,
    })
}

/// Both kinds of setWatches as one.
fn all_five(request: &Request) -> SetWatches2 {
    let (persistent, recursive) = (Vec::new(), Vec::new());
    match request.clone() {
        Request::SetWatches2(set) => set,
        Request::SetWatches(set) => SetWatches2 {
            relative_zxid: set.relative_zxid,
            data: set.data,
            exist: set.exist,
            child: set.child,
            persistent,
            recursive,
        },
        _ => SetWatches2 {
            relative_zxid: Zxid(0),
            data: Vec::new(),
            exist: Vec::new(),
            child: Vec::new(),
            persistent,
            recursive,
        },
    }
}
