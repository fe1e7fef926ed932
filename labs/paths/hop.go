package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// way is what a hop does to the packets of one direction. The zero value passes all of them.
type way struct {
	MTU    int           `json:"mtu,omitempty"`  // bytes of an IP packet; 0: any
	ICMP   bool          `json:"icmp,omitempty"` // answers packets that are too long
	Loss   float64       `json:"loss,omitempty"` // share of the packets
	Delay  time.Duration `json:"delay,omitempty"`
	Jitter time.Duration `json:"jitter,omitempty"` // up to this, more; packets keep their order
	Rate   float64       `json:"rate,omitempty"`   // bits a second; 0: any
	Queue  int           `json:"queue,omitempty"`  // bytes that wait for the rate
	Cut    bool          `json:"cut,omitempty"`    // nothing passes
}

// ways are both directions: towards the server and back.
type ways struct{ To, Back way }

// both is the same way in both directions.
func both(w way) ways { return ways{w, w} }

// direction carries packets from one TUN device to the other.
type direction struct {
	in, out  *os.File
	way      atomic.Pointer[way]
	rng      *rand.Rand
	free     time.Time // when the rate has sent all before
	last     time.Time // when the last packet leaves
	departed chan departure
}

type departure struct {
	at     time.Time
	packet []byte
}

const (
	tunQueue = 1 << 16
	tunMTU   = 9000
)

// hopMain is the process of a hop. It opens two TUN devices, in the namespaces of two processes,
// and takes a line of JSON, a ways, for each change.
func hopMain(args []string) error {
	set := flag.NewFlagSet("hop", flag.ContinueOnError)
	left := set.String("left", "self", "`process` in whose namespace the client's device is")
	right := set.String("right", "self", "... the server's")
	seed := set.Uint64("seed", 1, "of losses and jitter")
	if err := set.Parse(args); err != nil {
		return err
	}
	l, err := openTUN("tunl", *left)
	if err != nil {
		return err
	}
	r, err := openTUN("tunr", *right)
	if err != nil {
		return err
	}
	to := newDirection(l, r, *seed)
	back := newDirection(r, l, *seed+1)
	for _, d := range []*direction{to, back} {
		go d.read()
		go d.write()
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var w ways
		if err := json.Unmarshal(in.Bytes(), &w); err != nil {
			return err
		}
		to.way.Store(&w.To)
		back.way.Store(&w.Back)
		fmt.Println("ok")
	}
	return in.Err()
}

func newDirection(in, out *os.File, seed uint64) *direction {
	d := &direction{in: in, out: out, rng: rand.New(rand.NewPCG(seed, 71)),
		departed: make(chan departure, tunQueue)}
	d.way.Store(&way{})
	return d
}

// openTUN makes a TUN device in the network namespace of a process.
func openTUN(name, process string) (*os.File, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(home)
	there, err := unix.Open("/proc/"+process+"/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(there)
	if err := unix.Setns(there, unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	f, err := newTUN(name)
	return f, errors.Join(err, unix.Setns(home, unix.CLONE_NEWNET))
}

func newTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return nil, fmt.Errorf("a TUN device: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// read takes packets in and gives each the time at which it leaves, or drops it.
func (d *direction) read() {
	buf := make([]byte, 1<<16)
	for {
		n, err := d.in.Read(buf)
		if err != nil {
			return
		}
		w, now := d.way.Load(), time.Now()
		switch {
		case w.Cut, w.Loss > 0 && d.rng.Float64() < w.Loss:
			continue
		case w.MTU > 0 && n > w.MTU:
			if w.ICMP {
				_, _ = d.in.Write(tooLong(buf[:n], w.MTU))
			}
			continue
		}
		at := now
		if w.Rate > 0 {
			begin := now
			if d.free.After(now) {
				begin = d.free
			}
			if waits := begin.Sub(now).Seconds() * w.Rate / 8; int(waits)+n > w.Queue {
				continue
			}
			d.free = begin.Add(time.Duration(float64(n) * 8 / w.Rate * 1e9))
			at = d.free
		}
		at = at.Add(w.Delay)
		if w.Jitter > 0 {
			at = at.Add(time.Duration(d.rng.Int64N(int64(w.Jitter))))
		}
		if at.Before(d.last) {
			at = d.last
		}
		d.last = at
		select {
		case d.departed <- departure{at, append([]byte(nil), buf[:n]...)}:
		default: // more packets than a router would hold
		}
	}
}

// write sends each packet when its time has come.
func (d *direction) write() {
	for p := range d.departed {
		if wait := time.Until(p.at); wait > 0 {
			time.Sleep(wait)
		}
		if _, err := d.out.Write(p.packet); errors.Is(err, os.ErrClosed) || errors.Is(err, io.EOF) {
			return
		}
	}
}

// tooLong is the ICMP message that answers a packet which is longer than mtu: fragmentation needed
// (RFC 1191), or packet too big (RFC 4443). It comes from a router that has no other traffic.
func tooLong(packet []byte, mtu int) []byte {
	if packet[0]>>4 == 6 {
		quote := packet[:min(len(packet), 1280-48)]
		m := make([]byte, 48, 48+len(quote))
		m[0] = 0x60
		binary.BigEndian.PutUint16(m[4:], uint16(8+len(quote)))
		m[6], m[7] = unix.IPPROTO_ICMPV6, 64
		copy(m[8:24], []byte{0xfd, 0x71, 0, 9, 15: 9})
		copy(m[24:40], packet[8:24])
		m[40] = 2
		binary.BigEndian.PutUint32(m[44:], uint32(mtu))
		m = append(m, quote...)
		pseudo := sum(m[8:40], uint32(8+len(quote))+unix.IPPROTO_ICMPV6)
		binary.BigEndian.PutUint16(m[42:], ^fold(sum(m[40:], pseudo)))
		return m
	}
	quote := packet[:min(len(packet), 548)]
	m := make([]byte, 28, 28+len(quote))
	m[0], m[8], m[9] = 0x45, 64, unix.IPPROTO_ICMP
	binary.BigEndian.PutUint16(m[2:], uint16(28+len(quote)))
	copy(m[12:16], []byte{10, 71, 9, 9})
	copy(m[16:20], packet[12:16])
	binary.BigEndian.PutUint16(m[10:], ^fold(sum(m[:20], 0)))
	m[20], m[21] = 3, 4
	binary.BigEndian.PutUint16(m[26:], uint16(mtu))
	m = append(m, quote...)
	binary.BigEndian.PutUint16(m[22:], ^fold(sum(m[20:], 0)))
	return m
}

// sum adds 16-bit words to a checksum of RFC 1071.
func sum(b []byte, to uint32) uint32 {
	for ; len(b) > 1; b = b[2:] {
		to += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		to += uint32(b[0]) << 8
	}
	return to
}

func fold(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
