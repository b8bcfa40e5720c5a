package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	sessions    = 2
	inFlight    = 6
	keptOfEach  = 3
	parents     = 4
	childrenOf  = 6
	sometimes   = 5 // one in so many
	shortMillis = 700
)

// kills reads and writes while the server is killed and started again: see tests/process/kills/mod.rs, which judges by what
// passes on the wire. It runs until its standard input ends.
func kills() {
	seed := must(strconv.ParseInt(os.Getenv("ZK_SEED"), 10, 64))
	millis := must(strconv.Atoi(os.Getenv("ZK_TIMEOUT_MS")))
	for session := 0; session < sessions; session++ {
		conn, events := must2(zk.Connect(strings.Split(hosts, ","), time.Duration(millis)*time.Millisecond, zk.WithLogger(quiet{})))
		go func() {
			for event := range events {
				if event.State == zk.StateExpired {
					fmt.Println("a session is lost")
				}
			}
		}()
		counter := new(atomic.Int64)
		for worker := 0; worker < inFlight; worker++ {
			source := rand.NewSource(seed + int64(100*session+worker))
			one := &load{conn: conn, random: rand.New(source), name: fmt.Sprintf("go-%d", session), counter: counter}
			go one.run()
		}
	}
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// load has one request in flight. Several share a session.
type load struct {
	conn    *zk.Conn
	random  *rand.Rand
	name    string
	counter *atomic.Int64
	own     []string // sequential and ephemeral znodes, oldest first
}

func (l *load) run() {
	for {
		err := l.request()
		if errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrSessionExpired) {
			time.Sleep(10 * time.Millisecond) // until it is connected again
		}
	}
}

func (l *load) request() error {
	data := []byte(fmt.Sprintf("%s-%d", l.name, l.counter.Add(1)))
	parent := fmt.Sprintf("/k%d", l.random.Intn(parents))
	path := fmt.Sprintf("%s/%d", parent, l.random.Intn(childrenOf))
	if len(l.own) > keptOfEach {
		oldest := l.own[0]
		l.own = l.own[1:]
		return l.conn.Delete(oldest, -1)
	}
	switch chance := l.random.Intn(100); {
	case chance < 5:
		_, err := l.conn.Create(parent, data, zk.FlagPersistent, open)
		return err
	case chance < 18:
		_, err := l.conn.Create(path, data, zk.FlagPersistent, open)
		return err
	case chance < 35:
		_, err := l.conn.Set(path, data, l.version())
		return err
	case chance < 42:
		return l.conn.Delete(path, l.version())
	case chance < 50:
		flags := int32(zk.FlagSequence)
		if chance < 46 {
			flags |= zk.FlagEphemeral
		}
		created, err := l.conn.Create(parent+"/s-", data, flags, open)
		if err == nil {
			l.own = append(l.own, created)
		}
		return err
	case chance < 54:
		return l.container(parent+"/box", data)
	case chance < 57:
		life := time.Duration(1+l.random.Intn(shortMillis)) * time.Millisecond
		_, err := l.conn.CreateTTL(path, data, zk.FlagTTL, open, life)
		return err
	case chance < 59:
		_, err := l.conn.SetACL(path, open, -1)
		return err
	case chance < 66:
		return l.multi(path, data)
	case chance < 80:
		return l.get(path)
	case chance < 88:
		return l.children(parent)
	case chance < 96:
		return l.exists(path)
	default:
		_, err := l.conn.Sync(parent)
		return err
	}
}

func (l *load) version() int32 {
	return []int32{-1, -1, 0, 1}[l.random.Intn(4)]
}

// container makes a container, or its only child, or deletes that: the server removes a container that was left empty.
func (l *load) container(path string, data []byte) (err error) {
	switch l.random.Intn(3) {
	case 0:
		_, err = l.conn.CreateContainer(path, data, zk.FlagContainer, open)
	case 1:
		_, err = l.conn.Create(path+"/child", data, zk.FlagPersistent, open)
	default:
		err = l.conn.Delete(path+"/child", -1)
	}
	return err
}

func (l *load) multi(path string, data []byte) error {
	ops := []any{
		&zk.SetDataRequest{Path: path, Data: data, Version: -1},
		&zk.CreateRequest{Path: path + "-twin", Data: data, Acl: open, Flags: zk.FlagPersistent},
		&zk.CheckVersionRequest{Path: path, Version: -1},
	}
	if l.random.Intn(2) == 0 {
		ops = append(ops, &zk.DeleteRequest{Path: path + "-twin", Version: -1})
	}
	_, err := l.conn.Multi(ops...)
	return err
}

func (l *load) get(path string) error {
	if l.random.Intn(sometimes) > 0 {
		_, _, err := l.conn.Get(path)
		return err
	}
	_, _, _, err := l.conn.GetW(path)
	return err
}

func (l *load) children(path string) error {
	if l.random.Intn(sometimes) > 0 {
		_, _, err := l.conn.Children(path)
		return err
	}
	_, _, _, err := l.conn.ChildrenW(path)
	return err
}

func (l *load) exists(path string) error {
	if l.random.Intn(sometimes) > 0 {
		_, _, err := l.conn.Exists(path)
		return err
	}
	_, _, _, err := l.conn.ExistsW(path)
	return err
}
