package server_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/client"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/kv/server"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/faulty"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// keyOf returns a key of one of so many partitions.
func keyOf(part, parts int) []byte {
	for i := 0; ; i++ {
		if key := fmt.Append(nil, i); mica.PartitionOf(mica.Hash(key), parts) == part {
			return key
		}
	}
}

// TestChangedPartitions: calls under way go on when another one finds that a server has other
// partitions than the client thinks, and the connections are dropped. Nobody closed the client.
func TestChangedPartitions(t *testing.T) {
	const parts = 3
	var trs []transport.Transport
	var addrs []string
	for range parts {
		tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		trs, addrs = append(trs, tr), append(addrs, tr.LocalAddr().String())
	}
	// What is sent to partition 1 comes to another one.
	s, err := server.New(server.Config{Partitions: parts, Rpc: erpc.Config{NoHugepages: true},
		Store:     mica.Config{Memory: 1 << 20, NoHugepages: true},
		Advertise: []string{addrs[0], addrs[2], addrs[2]}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(trs) }()
	c := connectOver(t, newLoop(t, faulty.Faults{}, erpc.Timing{}),
		client.Config{Servers: addrs[2:]})
	slow, other, wrong := keyOf(0, parts), keyOf(2, parts), keyOf(1, parts)
	if _, err := c.Put(t.Context(), slow, slow); err != nil {
		t.Fatal(err)
	}
	blocked, release, free := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		_ = s.Do(0, func(*mica.Partition) { close(blocked); <-release })
		close(free)
	}()
	<-blocked
	const calls = 4
	results := make(chan error, calls)
	for range calls {
		go func() {
			_, err := c.Get(t.Context(), slow)
			results <- err
		}()
	}
	for range 100 { // the calls are under way then
		if _, err := c.Get(t.Context(), other); err != mica.ErrNotFound {
			t.Error(err)
		}
	}
	if _, err := c.Get(t.Context(), wrong); !errors.Is(err, message.ErrPartition) {
		t.Errorf("the wrong partition: %v", err)
	}
	close(release)
	for range calls {
		if err := <-results; err != nil {
			t.Errorf("a call under way: %v", err)
		}
	}
	<-free
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}
