// go-zookeeper against a server: see ../README.md.
package main

import (
	"os"
	"time"

	"github.com/go-zookeeper/zk"
)

const timeout = 6 * time.Second

var open = zk.WorldACL(zk.PermAll)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "restarts" {
		restarts()
	}
	if len(os.Args) == 2 && os.Args[1] == "conform" {
		conform()
	}
	if len(os.Args) == 2 && os.Args[1] == "kills" {
		kills()
	}
	outside, _ := connect(direct, 20*time.Second)
	must(outside.Create(root, nil, zk.FlagPersistent, open))
	conn, events := connect(hosts, timeout)
	modes(conn)
	operations(conn)
	multi(conn)
	permissions(conn)
	watches(conn, outside)
	fourLetterWords()
	reconnect(conn, events, outside)
	locks()
	expiry(outside)
	closing(conn, outside)
	outside.Close()
	if failed > 0 {
		os.Exit(1)
	}
}

// create makes a znode below the script's root and returns its whole path.
func create(conn *zk.Conn, path string, flags int32) string {
	return must(conn.Create(root+path, []byte("x"), flags, open))
}

func missing(conn *zk.Conn, path string) bool {
	found, _ := must2(conn.Exists(root + path))
	return !found
}
