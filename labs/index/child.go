package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/message"
	"github.com/userspace-rpc/erpc/index/server"
	"github.com/userspace-rpc/erpc/kit/loadgen"
	"github.com/userspace-rpc/erpc/labs/benchrows"
	"github.com/userspace-rpc/erpc/transport"
)

// Kinds of servers. All answer requests of type message.Get with 8 bytes.
const (
	bare    = "bare"    // with the request: an RPC and nothing else
	batched = "batched" // the index, a burst at a time
	single  = "single"  // the index, one by one
)

// listen opens an endpoint of a transport.
func listen(name string) (transport.Transport, error) {
	return loadgen.Local(name, "erpc-bench-index-")
}

// serveChild is the child process: it serves keys 0 to n-1 of the seed on a core of its own, prints
// its address, and ends with its standard input.
func serveChild(kind, network string, n int, pages string) (err error) {
	nexus, err := erpc.NewNexus(erpc.Config{NoHugepages: true, Workers: 1})
	if err != nil {
		return err
	}
	if kind == bare {
		err = nexus.Register(message.Get, erpc.Dispatch, func(h erpc.ReqHandle) {
			_ = h.RespondBytes(h.Data()) // the client gets its errors
		})
	} else {
		if err := setPages(pages); err != nil {
			return err
		}
		m := index.NewMap()
		fill(m, newKeys(n))
		if pages == "huge" {
			if _, err := collapse(); err != nil {
				return err
			}
		}
		runtime.GC()
		err = server.New(m, server.Config{OneByOne: kind == single}).Register(nexus)
	}
	if err != nil {
		return errors.Join(err, nexus.Close())
	}
	tr, err := listen(network)
	if err != nil {
		return errors.Join(err, nexus.Close())
	}
	rpc, err := nexus.NewRpc(tr)
	if err != nil {
		return errors.Join(err, tr.Close(), nexus.Close())
	}
	runtime.LockOSThread()
	benchrows.Pin(benchrows.ServerCore)
	ended := benchrows.ParentEnds(rpc.Wake)
	fmt.Printf("%q\n", tr.LocalAddr().String())
	err = rpc.Run(ended)
	return errors.Join(err, rpc.Close(), nexus.Close())
}
