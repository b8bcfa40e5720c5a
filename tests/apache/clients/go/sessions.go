package main

import (
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

func reconnect(conn *zk.Conn, events <-chan zk.Event, outside *zk.Conn) {
	session := conn.SessionID()
	create(conn, "/live", zk.FlagPersistent)
	create(conn, "/live/mine", zk.FlagEphemeral)
	create(conn, "/live/quiet", zk.FlagPersistent)
	_, _, data := must3(conn.GetW(root + "/live"))
	_, _, children := must3(conn.ChildrenW(root + "/live"))
	_, _, created := must3(conn.ExistsW(root + "/live/new"))
	_, _, quiet := must3(conn.GetW(root + "/live/quiet"))
	check("reconnect: same session", func() {
		for len(events) > 0 {
			<-events
		}
		control("refuse")
		awaitState(events, zk.StateDisconnected)
		must(outside.Set(root+"/live", nil, -1))
		create(outside, "/live/new", zk.FlagPersistent)
		control("heal")
		awaitState(events, zk.StateHasSession)
		equal(conn.SessionID(), session)
	})
	check("reconnect: ephemeral still there", func() {
		_, stat := must2(outside.Exists(root + "/live/mine"))
		equal(stat.EphemeralOwner, session)
	})
	check("reconnect: watches report what happened while away", func() {
		event(data, zk.EventNodeDataChanged, root+"/live")
		event(children, zk.EventNodeChildrenChanged, root+"/live")
		event(created, zk.EventNodeCreated, root+"/live/new")
	})
	check("reconnect: other watches are armed again", func() {
		must(outside.Set(root+"/live/quiet", nil, -1))
		event(quiet, zk.EventNodeDataChanged, root+"/live/quiet")
	})
	check("reconnect: after silence, same session", func() {
		silent, events := connect(hosts, 5*time.Second)
		defer silent.Close()
		session := silent.SessionID()
		control("stall")
		awaitState(events, zk.StateDisconnected)
		control("heal")
		awaitState(events, zk.StateHasSession)
		equal(silent.SessionID(), session)
	})
}

func locks() {
	check("lock: five contenders, one at a time", func() {
		const contenders, rounds = 5, 10
		var inside, held atomic.Int32
		results := make(chan any)
		for i := 0; i < contenders; i++ {
			go func() {
				defer func() { results <- recover() }()
				conn, _ := connect(hosts, timeout)
				defer conn.Close()
				for j := 0; j < rounds; j++ {
					lock := zk.NewLock(conn, root+"/lock", open)
					succeeds(lock.Lock())
					equal(inside.Add(1), int32(1))
					held.Add(1)
					inside.Add(-1)
					succeeds(lock.Unlock())
				}
			}()
		}
		for i := 0; i < contenders; i++ {
			trouble := next(results)
			need(trouble == nil, "%v", trouble)
		}
		equal(held.Load(), int32(contenders*rounds))
	})
	check("lock: passes on when its holder's session ends", func() {
		first, _ := connect(hosts, timeout)
		second, _ := connect(hosts, timeout)
		defer second.Close()
		succeeds(zk.NewLock(first, root+"/inherited", open).Lock())
		inherited := make(chan error)
		go func() { inherited <- zk.NewLock(second, root+"/inherited", open).Lock() }()
		eventually("the second waits", func() bool {
			names, _, err := second.Children(root + "/inherited")
			return err == nil && len(names) == 2
		})
		first.Close()
		succeeds(next(inherited))
	})
}

func expiry(outside *zk.Conn) {
	conn, events := connect(hosts, time.Second)
	defer conn.Close()
	session := conn.SessionID()
	path := create(conn, "/expiring", zk.FlagEphemeral)
	_, _, pending := must3(conn.GetW(root))
	check("expiry: the ephemeral goes, others are notified", func() {
		_, _, gone := must3(outside.ExistsW(path))
		control("refuse")
		event(gone, zk.EventNodeDeleted, path)
		need(missing(outside, "/expiring"), "it is still there")
	})
	check("expiry: the client sees it, its watches are notified", func() {
		control("heal")
		awaitState(events, zk.StateExpired)
		refused(next(pending).Err, zk.ErrSessionExpired)
	})
	check("expiry: a new session follows", func() {
		awaitState(events, zk.StateHasSession)
		need(conn.SessionID() != session, "it has the same id")
	})
}

func closing(conn, outside *zk.Conn) {
	check("close: the session's ephemerals go", func() {
		need(!missing(outside, "/live/mine"), "gone already")
		conn.Close()
		eventually("it is gone", func() bool { return missing(outside, "/live/mine") })
	})
}
