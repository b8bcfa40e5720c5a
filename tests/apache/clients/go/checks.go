package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

const limit = 10 * time.Second

var (
	hosts  = os.Getenv("ZK_HOSTS")  // through the proxy
	direct = os.Getenv("ZK_DIRECT") // past it
	root   = os.Getenv("ZK_ROOT")   // not created yet
	failed = 0
)

// failure is what ends a check early.
type failure struct{ text string }

// check is one check: a failed need ends it, and the script goes on.
func check(what string, block func()) {
	defer func() {
		switch trouble := recover().(type) {
		case nil:
			fmt.Println("ok", what)
		case failure:
			failed++
			fmt.Printf("not ok %s: %s\n", what, trouble.text)
		default:
			panic(trouble)
		}
	}()
	block()
}

func need(so bool, format string, args ...any) {
	if !so {
		panic(failure{fmt.Sprintf(format, args...)})
	}
}

// must passes a result on and needs its error to be nil.
func must[T any](result T, err error) T {
	need(err == nil, "%v", err)
	return result
}

func succeeds(err error) { need(err == nil, "%v", err) }

func refused(err, expected error) {
	need(errors.Is(err, expected), "error is %v, expected %v", err, expected)
}

func equal(got, expected any) {
	need(reflect.DeepEqual(got, expected), "got %v, expected %v", got, expected)
}

func eventually(what string, condition func() bool) {
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(20 * time.Millisecond) {
		need(time.Now().Before(deadline), "still not so: %s", what)
	}
}

// next is what a channel gives, in time.
func next[T any](channel <-chan T) T {
	select {
	case value := <-channel:
		return value
	case <-time.After(limit):
		panic(failure{"nothing came"})
	}
}

// event needs the watch to report this.
func event(watch <-chan zk.Event, kind zk.EventType, path string) {
	told := next(watch)
	need(told.Type == kind && told.Path == path, "told %v %s, expected %v %s", told.Type, told.Path, kind, path)
}

// awaitState skips what comes before this state.
func awaitState(events <-chan zk.Event, state zk.State) {
	for next(events).State != state {
	}
}

// control has the proxy obey a command.
func control(command string) {
	connection := must(net.Dial("tcp", os.Getenv("ZK_CONTROL")))
	defer connection.Close()
	fmt.Fprintln(connection, command)
	answer := must(bufio.NewReader(connection).ReadString('\n'))
	need(strings.HasPrefix(answer, "ok"), "the proxy answered %s to %s", answer, command)
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect waits for a session; the events are those after it.
func connect(address string, timeout time.Duration) (*zk.Conn, <-chan zk.Event) {
	conn, events := must2(zk.Connect([]string{address}, timeout, zk.WithLogger(quiet{}), zk.WithDialer(dial)))
	awaitState(events, zk.StateHasSession)
	return conn, events
}

// identities are what every session is, beside its address, each with all permissions.
func identities() []zk.ACL {
	var acl []zk.ACL
	for _, line := range strings.Split(os.Getenv("ZK_IDENTITIES"), "\n") {
		if scheme, id, found := strings.Cut(line, " "); found {
			acl = append(acl, zk.ACL{Perms: zk.PermAll, Scheme: scheme, ID: id})
		}
	}
	return acl
}

// dial connects in the clear or over TLS, as this run wants it: zk has nothing of its own for that.
func dial(network, address string, timeout time.Duration) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: timeout}
	ca := os.Getenv("ZK_CA")
	if ca == "" {
		return dialer.Dial(network, address)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(must(os.ReadFile(ca))) {
		panic("no certificate in " + ca)
	}
	if certificate := os.Getenv("ZK_CERTIFICATE"); certificate != "" {
		config.Certificates = []tls.Certificate{must(tls.LoadX509KeyPair(certificate, os.Getenv("ZK_KEY")))}
	}
	return tls.DialWithDialer(dialer, network, address, config)
}

func must2[A, B any](a A, b B, err error) (A, B) {
	need(err == nil, "%v", err)
	return a, b
}

func must3[A, B, C any](a A, b B, c C, err error) (A, B, C) {
	need(err == nil, "%v", err)
	return a, b, c
}
