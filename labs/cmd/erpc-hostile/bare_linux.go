package main

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security"
)

// The bare handshake is the least that a server with crypto/tls and a UDP socket does for a client
// that proves its address first: four datagrams come, four go, one thread does it all. It has no
// sessions and no timers, repeats nothing and seals nothing. With workers each step of a handshake
// runs in a goroutine, so that the thread with the socket never waits for a signature. With keys it
// also does what bareSide says.
//
//	C: bareAsk        S: bareAsk, with a cookie
//	C: ClientHello    S: its flight
//	C: its flight     S: a ticket
//	C: bareEnd        S: bareEnd
const (
	bareAsk = 'a'
	bareTLS = 't' // behind it messages: level u8, size u16, bytes
	bareEnd = 'e'
	// bareSize is the size of the first and the second datagram of a client, as Connects have.
	bareFirst, bareSecond = 88, 1472
)

// bareConfig returns the config of the keys, for either side.
func bareConfig(o *options) (server, client *tls.Config, err error) {
	var cfg erpc.Config
	if o.keys.Apply(&cfg); cfg.TLS == nil {
		return nil, nil, errors.New("bare handshakes need -tls-cert, -tls-key and -tls-ca")
	}
	return security.ServerConfig(cfg.TLS), security.ClientConfig(cfg.TLS, "127.0.0.1"), nil
}

// feed gives a side what has come, and returns what it says.
func feed(q *tls.QUICConn, in []byte, server bool) (out []byte, done bool, err error) {
	for {
		for e := q.NextEvent(); e.Kind != tls.QUICNoEvent; e = q.NextEvent() {
			switch e.Kind {
			case tls.QUICWriteData:
				out = binary.LittleEndian.AppendUint16(append(out, byte(e.Level)), uint16(len(e.Data)))
				out = append(out, e.Data...)
			case tls.QUICHandshakeDone:
				done = true
				if server {
					err = q.SendSessionTicket(tls.QUICSessionTicketOptions{})
				}
			}
			if err != nil {
				return nil, false, err
			}
		}
		if len(in) < 3 {
			return out, done, nil
		}
		n := int(binary.LittleEndian.Uint16(in[1:]))
		level, rest := tls.QUICEncryptionLevel(in[0]), in[3:]
		if n == 0 || n > len(rest) { // padding
			return out, done, nil
		}
		if err := q.HandleData(level, rest[:n]); err != nil {
			return nil, false, err
		}
		in = rest[n:]
	}
}

// serveBare serves bare handshakes, and prints its address first.
func serveBare(o *options) error {
	cfg, _, err := bareConfig(o)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	fmt.Printf("127.0.0.1:%d\n", at.(*unix.SockaddrInet4).Port)
	clients := map[unix.SockaddrInet4]*bareSide{}
	buf := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return err
		}
		key, ok := from.(*unix.SockaddrInet4)
		if n == 0 || !ok {
			continue
		}
		name := unix.SockaddrInet4{Port: key.Port, Addr: key.Addr}
		reply := []byte{buf[0]}
		switch buf[0] {
		case bareAsk:
			reply = append(reply, make([]byte, 24)...)
		case bareTLS:
			q := clients[name]
			if q == nil {
				q = newSide(cfg, false, o.bareKeys)
				clients[name] = q
			}
			if o.workers {
				in := bytes.Clone(buf[1:n])
				go func() { _ = stepBare(fd, &name, q, in) }() // the client repeats nothing, and fails
				continue
			}
			if stepBare(fd, &name, q, buf[1:n]) != nil {
				delete(clients, name)
			}
			continue
		case bareEnd:
			if q := clients[name]; q != nil {
				reply = append(reply, q.last()...)
				if q.end(buf[1:n]) != nil {
					continue
				}
				delete(clients, name)
			}
		}
		if err = unix.Sendto(fd, reply, 0, &name); err != nil {
			return err
		}
	}
}

// stepBare gives a server's side what has come, and sends what it says.
func stepBare(fd int, to *unix.SockaddrInet4, q *bareSide, in []byte) error {
	out, _, err := q.step(in)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, append([]byte{bareTLS}, out...), 0, to)
}

// dialBare makes one bare handshake. It reports whether a session was resumed.
func dialBare(target string, cfg *tls.Config, keys bool) (resumed bool, err error) {
	to, err := netip.ParseAddrPort(target)
	if err != nil {
		return false, err
	}
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return false, err
	}
	defer c.Close()
	if err = c.SetDeadline(time.Now().Add(3 * inTime)); err != nil {
		return false, err
	}
	buf := make([]byte, 1<<16)
	ask := func(kind byte, say []byte, least int) ([]byte, error) {
		if _, err := c.Write(pad(append([]byte{kind}, say...), least)); err != nil {
			return nil, err
		}
		n, err := c.Read(buf)
		if err != nil || n == 0 || buf[0] != kind {
			return nil, errors.Join(errors.New("no answer of the kind"), err)
		}
		return bytes.Clone(buf[1:n]), nil
	}
	if _, err = ask(bareAsk, nil, bareFirst); err != nil {
		return false, err
	}
	q := newSide(cfg, true, keys)
	defer q.close()
	least := bareSecond
	err = q.drive(func(say []byte, _ bool) ([]byte, error) {
		answer, err := ask(bareTLS, say, least)
		least = 0
		return answer, err
	})
	if err != nil {
		return false, err
	}
	answer, err := ask(bareEnd, q.last(), 0)
	if err == nil && keys {
		err = q.end(answer)
	}
	return q.state().DidResume, err
}

// pad makes a packet as long as least.
func pad(pkt []byte, least int) []byte {
	return append(pkt, make([]byte, max(least-len(pkt), 0))...)
}
