package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/udp"
	"golang.org/x/sys/unix"
)

const (
	echoType   = 1
	makeType   = 2       // answers with as many bytes as asked
	idsPerLoad = 1 << 20 // of one load's calls
	maxLoads   = 64
)

// endpoint has the flags that server and load share.
type endpoint struct {
	transport, psk, cc string
	portable           bool
	mtu, rcvbuf        int
	memory             int64
}

func (e *endpoint) flags(set *flag.FlagSet) {
	set.StringVar(&e.transport, "transport", "udp", "udp, shm, auto")
	set.StringVar(&e.psk, "psk", "", "shared `key`")
	set.StringVar(&e.cc, "cc", "", "cubic: follow losses, none: no congestion control")
	set.BoolVar(&e.portable, "portable", false, "the socket of package net")
	set.IntVar(&e.mtu, "mtu", 0, "largest packet, `bytes`")
	set.IntVar(&e.rcvbuf, "rcvbuf", 0, "receive buffer, `bytes`")
	set.Int64Var(&e.memory, "memory", 0, "Config.MemoryLimit")
}

func (e *endpoint) config() erpc.Config {
	cfg := erpc.Config{MemoryLimit: e.memory,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if e.psk != "" {
		cfg.PSK = [][]byte{[]byte(e.psk)}
	}
	switch e.cc {
	case "none":
		cfg.Congestion.Algorithm = erpc.CCNone
	case "cubic":
		cfg.Congestion.Algorithm = erpc.CCCubic
	}
	return cfg
}

func (e *endpoint) listen(addr string) (transport.Transport, error) {
	cfg := udp.Config{MTU: e.mtu, Portable: e.portable, RecvBuffer: e.rcvbuf}
	switch e.transport {
	case "shm":
		return shm.Listen(addr, shm.Config{})
	case "auto":
		return auto.Listen(addr, auto.Config{UDP: cfg})
	}
	return udp.Listen(addr, cfg)
}

// openCounts maps a file with a counter for each id: it outlives a server that is killed.
func openCounts(file string) ([]uint32, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const size = 4 * maxLoads * idsPerLoad
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), size/4), nil
}

// serveMain is the process of a server: an echo that counts how often each id ran. It ends with its
// standard input.
func serveMain(args []string) error {
	set := flag.NewFlagSet("serve", flag.ContinueOnError)
	addr := set.String("addr", "", "`address` to serve on")
	counts := set.String("counts", "", "`file` of the counters")
	largest := set.Int("answer", 0, "the largest answer, `bytes`; 0: not declared")
	tcp := set.Bool("tcp", false, "also accepts on TCP, for dials beside ours")
	var e endpoint
	e.flags(set)
	if err := set.Parse(args); err != nil {
		return err
	}
	ran, err := openCounts(*counts)
	if err != nil {
		return err
	}
	srv, err := erpc.NewServer(e.config())
	if err != nil {
		return err
	}
	if err := handle(srv, ran); err != nil {
		return err
	}
	if *largest > 0 {
		if err := srv.MaxResponse(makeType, *largest); err != nil {
			return err
		}
	}
	tr, err := e.listen(*addr)
	if err != nil {
		return err
	}
	if *tcp {
		if err := acceptTCP(*addr); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(tr) }()
	if err := json.NewEncoder(os.Stdout).Encode(ready{Ready: true}); err != nil {
		return err
	}
	stdin := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
		close(stdin)
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("the server ended: %w", err)
	case <-stdin:
		return srv.Close()
	}
}

// handle registers the handlers, which count.
func handle(srv *erpc.Server, ran []uint32) error {
	count := func(request []byte, least int) (id uint64, err error) {
		if len(request) < least {
			return 0, errors.New("a request without an id")
		}
		if id = binary.LittleEndian.Uint64(request); id >= uint64(len(ran)) {
			return 0, errors.New("an id that no load has")
		}
		atomic.AddUint32(&ran[id], 1)
		return id, nil
	}
	err := srv.Handle(echoType, func(_ context.Context, request []byte) ([]byte, error) {
		_, err := count(request, 8)
		return request, err
	})
	if err != nil {
		return err
	}
	return srv.Handle(makeType, func(_ context.Context, asked []byte) ([]byte, error) {
		id, err := count(asked, 16)
		if err != nil {
			return nil, err
		}
		size := binary.LittleEndian.Uint64(asked[8:])
		if size > 1<<23 {
			return nil, errors.New("too large an answer")
		}
		return request(id, int(size)), nil
	})
}

// acceptTCP takes connections and closes them.
func acceptTCP(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return nil
}

// ready is what a child prints when it works.
type ready struct {
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"`
}
