package main

import (
	"fmt"
	"os"
	"regexp"
	"sort"
	"time"

	"github.com/go-zookeeper/zk"
)

func modes(conn *zk.Conn) {
	create(conn, "/modes", zk.FlagPersistent)
	stat := func(path string) *zk.Stat {
		found, stat := must2(conn.Exists(root + path))
		need(found, "%s is missing", path)
		return stat
	}
	check("create persistent", func() {
		equal(create(conn, "/modes/p", zk.FlagPersistent), root+"/modes/p")
		equal(stat("/modes/p").EphemeralOwner, int64(0))
	})
	check("create ephemeral", func() {
		create(conn, "/modes/e", zk.FlagEphemeral)
		equal(stat("/modes/e").EphemeralOwner, conn.SessionID())
	})
	check("create persistent sequential", func() {
		equal(create(conn, "/modes/s-", zk.FlagSequence), root+"/modes/s-0000000002")
	})
	check("create ephemeral sequential", func() {
		equal(create(conn, "/modes/es-", zk.FlagEphemeralSequential), root+"/modes/es-0000000003")
		equal(stat("/modes/es-0000000003").EphemeralOwner, conn.SessionID())
	})
	check("create container", func() {
		equal(must(conn.CreateContainer(root+"/modes/c", nil, zk.FlagContainer, open)), root+"/modes/c")
		equal(stat("/modes/c").EphemeralOwner, int64(0))
	})
	check("create with TTL, and sequential with TTL", func() {
		const ttl = 300 * time.Millisecond
		equal(must(conn.CreateTTL(root+"/modes/t", nil, zk.FlagTTL, open, ttl)), root+"/modes/t")
		equal(must(conn.CreateTTL(root+"/modes/t-", nil, zk.FlagPersistentSequentialWithTTL, open, ttl)), root+"/modes/t-0000000006")
	})
	check("create protected ephemeral sequential", func() {
		path := must(conn.CreateProtectedEphemeralSequential(root+"/modes/p-", nil, open))
		need(regexp.MustCompile(`/_c_[0-9a-f]{32}-p-\d{10}$`).MatchString(path), "%s", path)
	})
	check("create refused: exists, no parent, below an ephemeral", func() {
		for path, expected := range map[string]error{
			"/modes/p": zk.ErrNodeExists, "/modes/none/x": zk.ErrNoNode, "/modes/e/x": zk.ErrNoChildrenForEphemerals,
		} {
			_, err := conn.Create(root+path, nil, zk.FlagPersistent, open)
			refused(err, expected)
		}
	})
	check("a container goes with its last child, a TTL znode with its time", func() {
		create(conn, "/modes/c/x", zk.FlagPersistent)
		succeeds(conn.Delete(root+"/modes/c/x", -1))
		eventually("they are gone", func() bool {
			return missing(conn, "/modes/c") && missing(conn, "/modes/t") && missing(conn, "/modes/t-0000000006")
		})
	})
}

func operations(conn *zk.Conn) {
	path := root + "/data"
	check("get and set", func() {
		create(conn, "/data", zk.FlagPersistent)
		data, stat := must2(conn.Get(path))
		equal(string(data), "x")
		equal(stat.Version, int32(0))
		equal(must(conn.Set(path, []byte("three"), 0)).Version, int32(1))
		data, stat = must2(conn.Get(path))
		equal(string(data), "three")
		equal(stat.DataLength, int32(5))
	})
	check("set refused: wrong version, missing", func() {
		_, err := conn.Set(path, nil, 7)
		refused(err, zk.ErrBadVersion)
		_, err = conn.Set(root+"/none", nil, -1)
		refused(err, zk.ErrNoNode)
	})
	check("empty data", func() {
		must(conn.Set(path, []byte{}, -1))
		data, _ := must2(conn.Get(path))
		equal(len(data), 0)
	})
	check("exists reports missing znodes", func() { need(missing(conn, "/none"), "it is there") })
	check("children", func() {
		create(conn, "/data/b", zk.FlagPersistent)
		create(conn, "/data/a", zk.FlagPersistent)
		names, stat := must2(conn.Children(path))
		sort.Strings(names)
		equal(names, []string{"a", "b"})
		equal(stat.NumChildren, int32(2))
		_, _, err := conn.Children(root + "/none")
		refused(err, zk.ErrNoNode)
	})
	check("delete, and delete refused: missing, wrong version, children", func() {
		refused(conn.Delete(path, 2), zk.ErrNotEmpty)
		refused(conn.Delete(path+"/a", 5), zk.ErrBadVersion)
		succeeds(conn.Delete(path+"/a", 0))
		refused(conn.Delete(path+"/a", -1), zk.ErrNoNode)
	})
	check("sync", func() { equal(must(conn.Sync(path)), path) })
	check("reconfig refused, connection kept", func() {
		_, err := conn.IncrementalReconfig([]string{"server.2=127.0.0.1:2:3;4"}, nil, -1)
		refused(err, zk.ErrReconfigDisabled)
		_, err = conn.Reconfig([]string{"server.2=127.0.0.1:2:3;4"}, -1)
		refused(err, zk.ErrReconfigDisabled)
		need(!missing(conn, ""), "the root is missing")
	})
	check("a hundred goroutines at once", func() {
		create(conn, "/many", zk.FlagPersistent)
		errs := make(chan error)
		for i := 0; i < 100; i++ {
			go func(i int) {
				_, err := conn.Create(fmt.Sprintf("%s/many/%d", root, i), nil, zk.FlagEphemeral, open)
				errs <- err
			}(i)
		}
		for i := 0; i < 100; i++ {
			succeeds(next(errs))
		}
		names, _ := must2(conn.Children(root + "/many"))
		equal(len(names), 100)
	})
}

func multi(conn *zk.Conn) {
	path := root + "/multi"
	check("multi: all kinds succeed", func() {
		results := must(conn.Multi(
			&zk.CreateRequest{Path: path, Data: []byte("0"), Acl: open},
			&zk.CreateRequest{Path: path + "/s-", Acl: open, Flags: zk.FlagSequence},
			&zk.CreateRequest{Path: path + "/e", Acl: open, Flags: zk.FlagEphemeral},
			&zk.SetDataRequest{Path: path, Data: []byte("1"), Version: 0},
			&zk.CheckVersionRequest{Path: path, Version: 1},
			&zk.DeleteRequest{Path: path + "/s-0000000000", Version: -1},
		))
		equal(results[1].String, path+"/s-0000000000")
		equal(results[3].Stat.Version, int32(1))
		names, _ := must2(conn.Children(path))
		equal(names, []string{"e"})
	})
	check("multi: one failure undoes all, an error for each operation", func() {
		results, err := conn.Multi(
			&zk.CreateRequest{Path: path + "/b", Acl: open},
			&zk.CheckVersionRequest{Path: path, Version: 9},
			&zk.DeleteRequest{Path: path, Version: -1},
		)
		refused(err, zk.ErrBadVersion)
		equal(len(results), 3)
		succeeds(results[0].Error)
		refused(results[1].Error, zk.ErrBadVersion)
		need(results[2].Error != nil, "the last part has no error")
		need(missing(conn, "/multi/b"), "the first part was applied")
	})
}

func permissions(conn *zk.Conn) {
	path := root + "/acl"
	bobOnly := zk.DigestACL(zk.PermAll, "bob", "pw")
	check("get and set ACL, right and wrong version", func() {
		create(conn, "/acl", zk.FlagPersistent)
		acl, stat := must2(conn.GetACL(path))
		equal(acl, open)
		equal(stat.Aversion, int32(0))
		_, err := conn.SetACL(path, open, 7)
		refused(err, zk.ErrBadVersion)
		_, err = conn.SetACL(path, []zk.ACL{{Perms: 31, Scheme: "nonsense", ID: "x"}}, -1)
		refused(err, zk.ErrInvalidACL)
		equal(must(conn.SetACL(path, bobOnly, 0)).Aversion, int32(1))
	})
	check("digest: denied without", func() {
		_, _, err := conn.Get(path)
		refused(err, zk.ErrNoAuth)
		_, err = conn.Set(path, nil, -1)
		refused(err, zk.ErrNoAuth)
		_, _, err = conn.Exists(path)
		refused(err, zk.ErrNoAuth)
		_, err = conn.Create(path+"/x", nil, 0, open)
		refused(err, zk.ErrNoAuth)
	})
	bob, events := connect(hosts, timeout)
	defer bob.Close()
	check("digest: allowed with AddAuth", func() {
		succeeds(bob.AddAuth("digest", []byte("bob:pw")))
		data, _ := must2(bob.Get(path))
		equal(string(data), "x")
		acl, _ := must2(bob.GetACL(path))
		equal(acl, bobOnly)
	})
	check("auth scheme: the creator's own id", func() {
		must(bob.Create(root+"/acl-auth", nil, 0, zk.AuthACL(zk.PermAll)))
		acl, _ := must2(bob.GetACL(root + "/acl-auth"))
		expected := append(identities(), bobOnly...)
		for _, list := range [][]zk.ACL{acl, expected} {
			sort.Slice(list, func(a, b int) bool { return list[a].Scheme < list[b].Scheme })
		}
		equal(acl, expected)
	})
	check("digest: allowed after a reconnect", func() {
		control("cut")
		awaitState(events, zk.StateHasSession)
		data, _ := must2(bob.Get(path))
		equal(string(data), "x")
	})
	check("auth with an unknown scheme fails", func() {
		other, _ := connect(hosts, timeout)
		defer other.Close()
		refused(other.AddAuth("nonsense", []byte("x")), zk.ErrAuthFailed)
	})
}

func watches(conn, other *zk.Conn) {
	path := root + "/w"
	create(conn, "/w", zk.FlagPersistent)
	check("watch: data changed, deleted", func() {
		_, _, watch := must3(conn.GetW(path))
		must(other.Set(path, nil, -1))
		event(watch, zk.EventNodeDataChanged, path)
		_, _, watch = must3(conn.GetW(path))
		succeeds(other.Delete(path, -1))
		event(watch, zk.EventNodeDeleted, path)
	})
	check("watch: exists, created", func() {
		found, _, watch := must3(conn.ExistsW(path))
		need(!found, "it is there")
		create(other, "/w", zk.FlagPersistent)
		event(watch, zk.EventNodeCreated, path)
	})
	check("watch: children", func() {
		_, _, watch := must3(conn.ChildrenW(path))
		create(other, "/w/c", zk.FlagPersistent)
		event(watch, zk.EventNodeChildrenChanged, path)
		_, _, watch = must3(conn.ChildrenW(path))
		succeeds(other.Delete(path+"/c", -1))
		event(watch, zk.EventNodeChildrenChanged, path)
	})
	check("watch: notified before the answer that shows the change", func() {
		_, _, watch := must3(conn.GetW(path))
		must(conn.Set(path, []byte("own"), -1))
		select {
		case told := <-watch:
			equal(told.Type, zk.EventNodeDataChanged)
		default:
			need(false, "not told yet")
		}
	})
}

// The words go to the port without TLS, as the client has no TLS of its own, and `cons` lists the sessions of that port.
func fourLetterWords() {
	servers := []string{os.Getenv("ZK_PLAIN")}
	check("four-letter words", func() {
		conn, events := must2(zk.Connect(servers, timeout, zk.WithLogger(quiet{})))
		defer conn.Close()
		awaitState(events, zk.StateHasSession)
		equal(zk.FLWRuok(servers, limit), []bool{true})
		// FLWSrvr is left out, as it does not understand the build date that 3.6 and later print; and FLWCons
		// reports failure as it does not understand the line of its own connection, which has no session.
		answers, _ := zk.FLWCons(servers, limit)
		listed := false
		for _, client := range answers[0].Clients {
			listed = listed || client.SessionID == conn.SessionID() && client.Timeout == int32(timeout.Milliseconds())
		}
		need(listed, "cons does not list this session")
	})
}
