// The locks of go-zookeeper, by the protocol of ../README.md: contenders by name, each with a session and a goroutine of
// its own.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

const session = 10 * time.Second

var sayLock sync.Mutex

func say(line string) {
	sayLock.Lock()
	defer sayLock.Unlock()
	fmt.Println(strings.ReplaceAll(line, "\n", " "))
}

type contender struct {
	id       string
	commands chan []string
	conn     *zk.Conn
	lock     *zk.Lock
}

func (c *contender) serve() {
	for words := range c.commands {
		if answer, rest, err := c.obey(words); err != nil {
			say("error " + c.id + " " + err.Error())
		} else {
			say(answer + " " + c.id + rest)
		}
	}
}

func (c *contender) obey(words []string) (answer, rest string, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	switch words[0] {
	case "acquire":
		c.lock = zk.NewLock(c.conn, words[2], zk.WorldACL(zk.PermAll))
		return "acquired", "", c.lock.Lock()
	case "release":
		return "released", "", c.lock.Unlock()
	case "contend":
		millis, err := strconv.Atoi(words[5])
		times := 0
		for end := time.Now().Add(time.Duration(millis) * time.Millisecond); err == nil && time.Now().Before(end); times++ {
			err = c.addOneUnder(zk.NewLock(c.conn, words[2], zk.WorldACL(zk.PermAll)), words[4])
		}
		return "contended", " " + strconv.Itoa(times), err
	}
	return "", "", fmt.Errorf("%s: no such command", words[0])
}

// addOneUnder counts in two steps without checking versions: a concurrent increment is lost.
func (c *contender) addOneUnder(lock *zk.Lock, counter string) error {
	if err := lock.Lock(); err != nil {
		return err
	}
	data, _, err := c.conn.Get(counter)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(string(data))
	if err != nil {
		return err
	}
	if _, err := c.conn.Set(counter, []byte(strconv.Itoa(count+1)), -1); err != nil {
		return err
	}
	return lock.Unlock()
}

func main() {
	contenders := map[string]*contender{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		id := words[1]
		known := contenders[id]
		if words[0] == "close" {
			if known != nil {
				known.conn.Close()
				delete(contenders, id)
			}
			say("closed " + id)
			continue
		}
		if known == nil {
			conn, _, err := zk.Connect([]string{os.Args[1]}, session)
			if err != nil {
				say("error " + id + " " + err.Error())
				continue
			}
			known = &contender{id: id, commands: make(chan []string, 8), conn: conn}
			contenders[id] = known
			go known.serve()
		}
		known.commands <- words
	}
}
