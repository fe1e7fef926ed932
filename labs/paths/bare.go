package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Bare senders are the smallest program that fills a link by datagrams with answers: no requests,
// no order, no rate, and a window that never changes. They show what the machine carries.
const (
	bareSize   = 1472                  // bytes of a datagram: it fills a packet where the MTU is 1500
	bareAnswer = 24                    // ... and of an answer
	bareLost   = 50 * time.Millisecond // without an answer all that is under way is lost
)

// bareServeMain is the process of a server that answers each datagram that asks for it, by a first
// byte that is not 0. It ends with its standard input.
func bareServeMain(args []string) error {
	set := flag.NewFlagSet("bare-serve", flag.ContinueOnError)
	addr := set.String("addr", "", "`address` to serve on, IPv4")
	if err := set.Parse(args); err != nil {
		return err
	}
	fd, at, err := bareSocket(*addr)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, at); err != nil {
		return err
	}
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, from, err := unix.Recvfrom(fd, b, 0)
			if err != nil {
				continue
			}
			for k := 0; k+bareAnswer <= n; k += bareSize { // a train is one read
				if b[k] != 0 {
					_ = unix.Sendto(fd, b[k:k+bareAnswer], 0, from)
				}
			}
		}
	}()
	if err := json.NewEncoder(os.Stdout).Encode(ready{Ready: true}); err != nil {
		return err
	}
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return nil
}

// bareSocket returns a socket that takes and gives trains, and addr for it.
func bareSocket(addr string) (fd int, at *unix.SockaddrInet4, err error) {
	to, err := net.ResolveUDPAddr("udp4", addr)
	if err != nil {
		return 0, nil, err
	}
	at = &unix.SockaddrInet4{Port: to.Port}
	copy(at.Addr[:], to.IP.To4())
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, nil, err
	}
	return fd, at, errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20),
		unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, bareSize),
		unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1))
}

// bareLoadMain is the process of a sender. It takes "mark" and "stop" as a load does, and reports
// one phase.
func bareLoadMain(args []string) error {
	set := flag.NewFlagSet("bare", flag.ContinueOnError)
	addr := set.String("addr", "", "`address` of the server, IPv4")
	window := set.Int("window", 8, "`datagrams` under way")
	train := set.Int("train", 1, "`datagrams` that one answer stands for")
	if err := set.Parse(args); err != nil {
		return err
	}
	fd, at, err := bareSocket(*addr)
	if err != nil {
		return err
	}
	wait := unix.NsecToTimeval(int64(bareLost))
	if err := errors.Join(unix.Connect(fd, at),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)); err != nil {
		return err
	}
	var answered atomic.Int64
	go bareSend(fd, *window, *train, &answered)
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(ready{Ready: true}); err != nil {
		return err
	}
	p := phase{Name: "run"}
	var before int64
	var begun time.Time
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() && strings.HasPrefix(in.Text(), "mark ") {
		before, begun = answered.Load(), time.Now()
		fmt.Println("ok")
	}
	p.Bytes, p.Length = answered.Load()-before, time.Since(begun)
	return out.Encode(&loadReport{Phases: []phase{p}})
}

// bareSend keeps a window of datagrams under way, by trains whose last datagram asks for an answer,
// and counts the bytes that were answered.
func bareSend(fd, window, train int, answered *atomic.Int64) {
	b, in := make([]byte, bareSize*train), make([]byte, 1<<16)
	b[bareSize*(train-1)] = 1
	for under := 0; ; {
		for ; under+train <= window; under += train {
			_, _ = unix.Write(fd, b)
		}
		n, err := unix.Read(fd, in)
		if err != nil {
			under = 0
			continue
		}
		got := n / bareAnswer * train
		under = max(0, under-got)
		answered.Add(int64(got * bareSize))
	}
}

// bareShared is a link that so many bare senders fill at once: a datagram at a time with an answer
// each, as sessions do whose rate is controlled packet by packet, and by trains of four.
func bareShared(l shareLink, clients int) func(t *trial) {
	return func(t *trial) {
		t.must(t.shape(l.mbit, l.queue))
		_ = t.line(t.start(t.server, nil, "bare-serve", "--addr", at4))
		for _, way := range []struct {
			name          string
			window, train int
		}{{"one by one", 6, 1}, {"by fours", 8, 4}} {
			list := make([]*running, clients)
			for i := range list {
				list[i] = &running{t.start(t.client, nil, "bare", "--addr", at4, "--window",
					fmt.Sprint(way.window), "--train", fmt.Sprint(way.train)), t}
			}
			all := together(runAll(t, list, l.span))
			t.shown(way.name, all.mbit("run"), "Mbit/s")
		}
	}
}
