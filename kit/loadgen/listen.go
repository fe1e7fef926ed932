package loadgen

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// Kind is a transport that a program offers.
type Kind struct {
	Name   string
	Listen func(addr string) (transport.Transport, error)
}

// Kinds are the transports that need no device.
var Kinds = []Kind{
	{"udp", func(addr string) (transport.Transport, error) { return udp.Listen(addr, udp.Config{}) }},
	{"shm", func(addr string) (transport.Transport, error) {
		return shm.Listen(strings.TrimPrefix(addr, "shm:"), shm.Config{})
	}},
	{"auto", func(addr string) (transport.Transport, error) {
		return auto.Listen(addr, auto.Config{})
	}},
}

// UnknownError means that no transport of a program has that name.
type UnknownError struct {
	Name  string
	Known []Kind
}

func (e *UnknownError) Error() string {
	text := ""
	for i, k := range e.Known {
		switch {
		case i > 0 && i == len(e.Known)-1:
			text += " and "
		case i > 0:
			text += ", "
		}
		text += k.Name
	}
	return fmt.Sprintf("transport %q is unknown; there are %s", e.Name, text)
}

// Listen opens an endpoint of the transport with a name, of Kinds and more; addr "" is any. Errors:
// *UnknownError, and those of the transport.
func Listen(name, addr string, more ...Kind) (transport.Transport, error) {
	if addr == "" && name != "shm" {
		addr = ":0"
	}
	all := append(Kinds[:len(Kinds):len(Kinds)], more...)
	for _, k := range all {
		if k.Name != name {
			continue
		}
		tr, err := k.Listen(addr)
		var op *net.OpError
		if errors.As(err, &op) {
			err = fmt.Errorf("cannot listen on %s: %w; choose another --addr", addr, err)
		}
		return tr, err
	}
	return nil, &UnknownError{name, all}
}

// Local opens an endpoint of udp or shm on this machine, on any port or under a name that begins
// with prefix.
func Local(name, prefix string) (transport.Transport, error) {
	switch name {
	case "udp":
		return Listen(name, "127.0.0.1:0")
	case "shm":
		return Listen(name, prefix+strconv.Itoa(os.Getpid()))
	}
	return nil, fmt.Errorf("transport %q: want udp or shm", name)
}
