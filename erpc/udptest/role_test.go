package udptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
	"github.com/userspace-rpc/erpc/transport/faulty"
	"github.com/userspace-rpc/erpc/transport/lending"
	"github.com/userspace-rpc/erpc/transport/pcap"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/ud"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// roleEnv holds a role as JSON in the environment of a child.
const roleEnv = "ERPC_UDPTEST_ROLE"

// transportEnv names what the roles speak instead of UDP: "ud", between the two devices of
// scripts/rdma-lab.
const transportEnv = "ERPC_UDPTEST_TRANSPORT"

// bindTo returns the address that a role has unless the test says otherwise.
func bindTo(name string) string {
	switch {
	case os.Getenv(transportEnv) != "ud":
		return "127.0.0.1:0"
	case name == "server":
		return "10.9.0.2:0"
	}
	return "10.9.0.1:0"
}

// listen opens the socket, or what stands for it.
func listen(bind string) (transport.Transport, error) {
	if os.Getenv(transportEnv) == "ud" {
		return ud.Listen(bind, ud.Config{RecvRing: 1024})
	}
	return udp.Listen(bind, udp.Config{})
}

// role is the task of a child.
type role struct {
	Name    string   // "server" or "client"
	Bind    string   // address of its socket
	Servers []string // client: whom to dial
	ID      int      // client: its number, for telling its requests apart
	Loss    float64  // probability that a packet it sends is lost
	Slots   int
	Credits int
	Failure time.Duration // FailureTimeout
	Dir     string        // where it meets others over shared memory; "": over UDP alone
	Around  []string      // decorators of its transport, from the inner to the outer
}

func (r *role) config() erpc.Config {
	t := erpc.Timing{FailureTimeout: r.Failure}
	if r.Failure != 0 {
		t.Heartbeat = r.Failure / 4
	}
	return erpc.Config{Slots: r.Slots, Credits: r.Credits, Timing: t}
}

// open opens the socket, with the decorators and the faults that the role has.
func (r *role) open() (tr transport.Transport, err error) {
	if r.Dir == "" {
		tr, err = listen(r.Bind)
	} else {
		tr, err = auto.Listen(r.Bind, auto.Config{SHM: shm.Config{Dir: r.Dir}})
	}
	for _, name := range r.Around {
		if err == nil {
			tr, err = decorate(tr, name)
		}
	}
	if err != nil || r.Loss == 0 {
		return tr, err
	}
	return faulty.New(tr, faulty.Config{Seed: uint64(r.ID) + 1, TX: faulty.Faults{Loss: r.Loss}})
}

// decorators are the names that decorate knows.
var decorators = []string{"pcap", "faulty", "lending"}

// decorate puts a decorator around a transport, in which it changes nothing.
func decorate(tr transport.Transport, name string) (transport.Transport, error) {
	switch name {
	case "pcap":
		c, err := pcap.New(io.Discard, pcap.Config{})
		if err != nil {
			return nil, err
		}
		return c.Wrap(tr), nil
	case "faulty":
		return faulty.New(tr, faulty.Config{})
	case "lending":
		return lending.New(tr, lending.Config{Inline: tr.Caps().MTU})
	}
	return nil, fmt.Errorf("unknown decorator %q", name)
}

func TestMain(m *testing.M) {
	text := os.Getenv(roleEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var r role
	err := json.Unmarshal([]byte(text), &r)
	if err == nil {
		switch r.Name {
		case "server":
			err = runServer(&r)
		case "client":
			err = runClient(&r)
		default:
			err = fmt.Errorf("unknown role %q", r.Name)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, r.Name+":", err)
		os.Exit(1)
	}
}

// say writes one line to the parent: a word and a value.
func say(word string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s %s\n", word, text)
}

// orders gives each line from the parent to do, as a word and the rest, until the
// input ends or do returns false.
func orders(do func(word, rest string) bool) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		if !do(word, rest) {
			return
		}
	}
	os.Exit(2) // the parent is gone
}
