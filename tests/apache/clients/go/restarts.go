package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"
)

// restarts stays connected to a server that restarts without its state: see ../restarts.py.
func restarts() {
	millis := must(strconv.Atoi(os.Getenv("ZK_TIMEOUT_MS")))
	conn, events := connect(hosts, time.Duration(millis)*time.Millisecond)
	go func() {
		for event := range events {
			if event.State == zk.StateExpired {
				fmt.Println("lost")
			}
		}
	}()
	session := int64(0)
	for ; ; time.Sleep(100 * time.Millisecond) {
		if err := writeAndRead(conn); err != nil {
			fmt.Println("error", err)
		} else if conn.SessionID() != session {
			session = conn.SessionID()
			fmt.Printf("works %x\n", session)
		}
	}
}

func writeAndRead(conn *zk.Conn) error {
	if _, err := conn.Create(root, nil, zk.FlagPersistent, open); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	if _, err := conn.Set(root, []byte("x"), -1); err != nil {
		return err
	}
	_, _, err := conn.Get(root)
	return err
}
