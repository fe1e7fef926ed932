package erpc_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// BenchmarkSetServers lets 10,000 servers that are not there join a Pool and leave it again, and
// measures how long both take with a call to the one that is there after each.
func BenchmarkSetServers(b *testing.B) {
	s, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	err = s.Handle(1, func(context.Context, []byte) ([]byte, error) { return nil, nil })
	if err != nil {
		b.Fatal(err)
	}
	var ends [2]*udp.Conn
	for i := range ends {
		if ends[i], err = udp.Listen("127.0.0.1:0", udp.Config{}); err != nil {
			b.Fatal(err)
		}
	}
	go func() { _ = s.Serve(ends[0]) }()
	l, err := erpc.NewLoop(ends[1], erpc.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	one := []string{ends[0].LocalAddr().String()}
	p, err := erpc.NewPool(erpc.PoolConfig{Servers: one}, l)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	many := one
	for i := range 10_000 {
		many = append(many, fmt.Sprintf("127.0.%d.%d:9", 1+i>>8, i&255))
	}
	for b.Loop() {
		for _, list := range [][]string{many, one} {
			if err := p.SetServers(list, nil); err != nil {
				b.Fatal(err)
			}
			if _, err := p.Call(b.Context(), 1, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}
