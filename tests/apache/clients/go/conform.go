package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// conform is a program for `zoolet conform --client`: see ../conform.py.
func conform() {
	scenario := os.Getenv("ZOOKEEPER_SCENARIO")
	duration := time.Duration(must(strconv.Atoi(os.Getenv("ZOOKEEPER_SECONDS")))) * time.Second
	addresses := strings.Split(os.Getenv("ZOOKEEPER"), ",")
	conn, events := must2(zk.Connect(addresses, 10*time.Second, zk.WithLogger(quiet{})))
	awaitState(events, zk.StateHasSession)
	if err := conn.AddAuth("digest", []byte("conform:secret")); err != nil {
		panic(err)
	}
	must(conn.Create("/app", nil, zk.FlagPersistent, open))
	must(conn.Create("/app/watched", nil, zk.FlagPersistent, open))
	must(conn.Create("/app/lock", nil, zk.FlagPersistent, open))
	retry(func() error {
		_, _, _, err := conn.GetW("/app/watched")
		return err
	})
	retry(func() error {
		_, _, _, err := conn.ChildrenW("/app/watched")
		return err
	})
	retry(func() error {
		_, _, _, err := conn.ExistsW("/app/absent")
		return err
	})
	switch scenario {
	case "many-watches":
		for number := 0; number < 1300; number++ {
			path := fmt.Sprintf("/app/%s-%d", strings.Repeat("x", 900), number)
			retry(func() error {
				_, _, _, err := conn.ExistsW(path)
				return err
			})
		}
	case "large-replies", "empty-replies":
		must2(conn.Get(os.Getenv("ZOOKEEPER_PATH") + "/data"))
		must2(conn.Children(os.Getenv("ZOOKEEPER_PATH") + "/children"))
	case "idle":
		time.Sleep(duration)
	}
	for end := time.Now().Add(duration); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		retry(func() error {
			ticket, err := conn.CreateProtectedEphemeralSequential("/app/lock/ticket-", nil, open)
			if err != nil {
				return err
			}
			if _, err := conn.Set("/app", []byte("x"), -1); err != nil {
				return err
			}
			return conn.Delete(ticket, -1)
		})
	}
	conn.Close()
	os.Exit(0)
}

func retry(operation func() error) {
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		err := operation()
		if err == nil {
			return
		}
		if time.Now().After(limit) {
			panic(err)
		}
	}
}
