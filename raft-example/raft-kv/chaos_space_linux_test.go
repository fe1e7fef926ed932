package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// space is a network namespace with one link, a TUN device whose packets the switch carries. It
// lives as long as its thread.
type space struct {
	tun *os.File
	ask chan func()
}

// spaces is a switch between namespaces, one for each replica and one for the clients. Replica n
// has the address 10.77.0.n, clients 10.77.0.250.
type spaces struct {
	*weather
	mu  sync.Mutex
	all map[int]*space
	wg  sync.WaitGroup
}

const clientHost = 250

// newSpaces fails with an error of the system if namespaces or TUN devices are not allowed.
func newSpaces(w *weather) (*spaces, error) {
	s := &spaces{weather: w, all: map[int]*space{}}
	_, err := s.add(outside, clientHost)
	return s, err
}

func addr4(host int) net.IP { return net.IPv4(10, 77, 0, byte(host)).To4() }

// add makes a namespace.
func (s *spaces) add(id, host int) (*space, error) {
	sp := &space{ask: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		var err error
		sp.tun, err = enterSpace(addr4(host))
		made <- err
		if err == nil {
			for f := range sp.ask {
				f()
			}
		}
	}()
	if err := <-made; err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id] = sp
	s.wg.Go(func() { s.forward(id, sp) })
	return sp, nil
}

// enterSpace moves this thread to a new namespace with a device of this address.
func enterSpace(ip net.IP) (tun *os.File, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("a new network namespace: %w", err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	defer unix.Close(sock)
	flags := func(v uint16) func(*unix.Ifreq) error {
		return func(r *unix.Ifreq) error { r.SetUint16(v); return nil }
	}
	address := func(ip []byte) func(*unix.Ifreq) error {
		return func(r *unix.Ifreq) error { return r.SetInet4Addr(ip) }
	}
	steps := []struct {
		fd   int
		req  uint
		fill func(r *unix.Ifreq) error
	}{
		{fd, unix.TUNSETIFF, flags(unix.IFF_TUN | unix.IFF_NO_PI)},
		{sock, unix.SIOCSIFADDR, address(ip)},
		{sock, unix.SIOCSIFNETMASK, address([]byte{255, 255, 255, 0})},
		{sock, unix.SIOCSIFFLAGS, flags(unix.IFF_UP | unix.IFF_RUNNING)},
	}
	for _, step := range steps {
		r, err := unix.NewIfreq("chaos0")
		if err == nil {
			err = step.fill(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(step.fd, step.req, r)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the device: request %#x: %w", step.req, err), unix.Close(fd))
		}
	}
	return os.NewFile(uintptr(fd), "tun"), nil
}

// forward carries what leaves a namespace.
func (s *spaces) forward(from int, sp *space) {
	b := make([]byte, 1<<16)
	for {
		n, err := sp.tun.Read(b)
		if err != nil {
			return
		}
		if n < 20 || b[0]>>4 != 4 || binary.BigEndian.Uint32(b[16:])>>8 != 10<<16|77<<8 {
			continue // IPv6 looks for routers
		}
		to := int(b[19])
		if to == clientHost {
			to = outside
		}
		s.mu.Lock()
		dst := s.all[to]
		s.mu.Unlock()
		if dst != nil {
			s.carry(from, to, b[:n], func(b []byte) { _, _ = dst.tun.Write(b) })
		}
	}
}

func (s *spaces) place(id int) (listen, known string, err error) {
	addr := net.JoinHostPort(addr4(id).String(), "31850")
	_, err = s.add(id, id)
	return addr, addr, err
}

// in calls f in a namespace.
func (s *spaces) in(id int, f func() error) error {
	s.mu.Lock()
	sp := s.all[id]
	s.mu.Unlock()
	done := make(chan error)
	sp.ask <- func() { done <- f() }
	return <-done
}

func (s *spaces) start(id int, cmd *exec.Cmd) error { return s.in(id, cmd.Start) }

func (s *spaces) inside(f func() error) error { return s.in(outside, f) }

func (s *spaces) close() {
	s.mu.Lock()
	all := s.all
	s.all = map[int]*space{}
	s.mu.Unlock()
	for _, sp := range all {
		_ = sp.tun.Close()
		close(sp.ask)
	}
	s.wg.Wait()
}

// openSpaces is newSpaces.
func openSpaces(w *weather) (chaosNet, error) { return newSpaces(w) }
