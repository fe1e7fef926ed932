package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/loadgen"
	"github.com/userspace-rpc/erpc/kv/memcached"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/kv/server"
	"github.com/userspace-rpc/erpc/labs/benchrows"
	"github.com/userspace-rpc/erpc/transport"
)

// Kinds of children.
const (
	childBare  = "bare"  // answers with the request
	childStore = "store" // has all keys
)

// bareType is the request type of a bare child.
const bareType = 1

// listen opens an endpoint of a transport.
func listen(name string) (transport.Transport, error) {
	return loadgen.Local(name, "erpc-bench-kv-")
}

// serveChild is the child process: it prints its addresses, and ends with its standard input.
func serveChild(kind, network string, keys int) error {
	benchrows.Pin(benchrows.ServerCore)
	tr, err := listen(network)
	if err != nil {
		return err
	}
	if kind == childBare {
		return serveBare(tr)
	}
	return serveStore(tr, keys)
}

func serveBare(tr transport.Transport) error {
	return loadgen.Echo(tr, bareType, func(rpc *erpc.Rpc) func() bool {
		ended := benchrows.ParentEnds(rpc.Wake)
		fmt.Printf("%q\n", tr.LocalAddr().String())
		return ended
	})
}

// serveStore serves keys 0 to n-1 to erpc's clients and to memcached's.
func serveStore(tr transport.Transport, n int) error {
	srv, err := server.New(server.Config{Rpc: erpc.Config{NoHugepages: true},
		Store: mica.Config{Mode: mica.Store, Memory: memory(n)}, Shared: true})
	if err != nil {
		return errors.Join(err, tr.Close())
	}
	addr := tr.LocalAddr().String()
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve([]transport.Transport{tr}) }()
	w := newWords(n)
	var failed error
	for at := 0; at < n && failed == nil; at += 1000 {
		err := srv.Do(0, func(p *mica.Partition) {
			for i := uint64(at); i < uint64(min(at+1000, n)); i++ {
				value := w.valueOf(i)
				key := w.of(i)
				failed = errors.Join(failed, p.Put(p.Hash(key), key, value))
			}
		})
		if err == erpc.ErrClosed { // Serve begins in a goroutine
			at -= 1000
			continue
		}
		failed = errors.Join(failed, err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err = errors.Join(err, failed); err != nil {
		return errors.Join(err, srv.Close())
	}
	mc := memcached.New(memcached.Config{Store: srv})
	go func() { _ = mc.Serve(ln) }() // until Close
	fmt.Printf("%q\n", addr+" "+ln.Addr().String())
	benchrows.UntilParentEnds(func() { err = errors.Join(mc.Close(), srv.Close()) })
	if e := <-ended; !errors.Is(e, erpc.ErrClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// memory returns the bytes of a partition for n items, with room for as many again.
func memory(n int) int { return max(n*160, 1<<20) }
