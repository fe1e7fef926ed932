package main

import (
	"net"
	"os/exec"
	"sync"
)

// chaosNet is a network with weather.
type chaosNet interface {
	// place makes room for a replica: the address that it listens on, and the one by which all
	// others know it.
	place(id int) (listen, known string, err error)
	// start starts the process of a replica that has a place.
	start(id int, cmd *exec.Cmd) error
	// inside calls f where the clients are: sockets that it opens stay there.
	inside(f func() error) error
	close()
}

// proxy has a socket in front of each replica, on loopback. It tells replicas by the addresses
// that they send from.
type proxy struct {
	*weather
	mu      sync.Mutex
	replica map[string]int // by the address that it listens on
	socks   []*net.UDPConn
	wg      sync.WaitGroup
	over    bool
}

func newProxy(w *weather) *proxy { return &proxy{weather: w, replica: map[string]int{}} }

func (p *proxy) start(_ int, cmd *exec.Cmd) error { return cmd.Start() }
func (p *proxy) inside(f func() error) error      { return f() }

func (p *proxy) place(id int) (listen, known string, err error) {
	free, err := freeAddrs(1)
	if err != nil {
		return "", "", err
	}
	front, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return "", "", err
	}
	p.mu.Lock()
	p.replica[free[0]] = id
	p.mu.Unlock()
	to, err := net.ResolveUDPAddr("udp4", free[0])
	if err != nil {
		return "", "", err
	}
	p.run(front, func() { p.serve(front, id, to) })
	return free[0], front.LocalAddr().String(), nil
}

// run has a goroutine read a socket until close.
func (p *proxy) run(sock *net.UDPConn, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		_ = sock.Close()
		return
	}
	p.socks = append(p.socks, sock)
	p.wg.Go(f)
}

// serve carries packets to a replica, from a socket of its own for each sender, and its answers
// back.
func (p *proxy) serve(front *net.UDPConn, id int, to *net.UDPAddr) {
	back := map[string]*net.UDPConn{}
	b := make([]byte, 1<<16)
	for {
		n, src, err := front.ReadFromUDP(b)
		if err != nil {
			return
		}
		sock := back[src.String()]
		if sock == nil {
			if sock, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
				continue // the packet is lost
			}
			back[src.String()] = sock
			p.run(sock, func() { p.answers(sock, front, id, src) })
		}
		p.carry(p.who(src), id, b[:n], func(b []byte) { _, _ = sock.WriteToUDP(b, to) })
	}
}

func (p *proxy) answers(sock, front *net.UDPConn, id int, dst *net.UDPAddr) {
	b := make([]byte, 1<<16)
	for {
		n, _, err := sock.ReadFromUDP(b)
		if err != nil {
			return
		}
		p.carry(id, p.who(dst), b[:n], func(b []byte) { _, _ = front.WriteToUDP(b, dst) })
	}
}

// who returns the replica that sends from an address, or outside.
func (p *proxy) who(addr *net.UDPAddr) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replica[addr.String()]
}

func (p *proxy) close() {
	p.mu.Lock()
	p.over = true
	socks := p.socks
	p.mu.Unlock()
	for _, s := range socks {
		_ = s.Close()
	}
	p.wg.Wait()
}
