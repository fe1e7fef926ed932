package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
	"github.com/userspace-rpc/erpc/wire"
)

// mute is a transport that keeps the last packet that was sent, and then sends nothing any more.
type mute struct {
	transport.Transport
	last []byte
	over bool
}

func (m *mute) TxBurst(items []transport.TxItem) (int, error) {
	if m.over {
		return len(items), nil
	}
	if len(items) > 0 {
		it := &items[len(items)-1]
		m.last = append(append(m.last[:0], it.Head...), it.Data...)
	}
	return m.Transport.TxBurst(items)
}

// forge returns packets like those of a session that there is. Every two seconds, before the server
// gives it up, it opens another one.
func (s *socket) forge(o *options) (source, error) {
	pkt, err := s.abandon(o)
	if err != nil {
		return nil, err
	}
	since := time.Now()
	return func() ([]byte, [4]byte) {
		if pkt[1]++; pkt[1] == 0 && // of the counter
			time.Since(since) > 2*time.Second {
			if p, err := s.abandon(o); err == nil {
				pkt = p
			}
			since = time.Now()
		}
		_, _ = rand.Read(pkt[wire.SealedHead:]) // never fails; all but the part in the clear
		return pkt, [4]byte{127, 0, 0, 1}
	}, nil
}

// abandon opens a session, ends without a word, and lets the socket go on from the same port
// without the keys. It returns the last packet that was sent.
func (s *socket) abandon(o *options) ([]byte, error) {
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		return nil, err
	}
	port := int(conn.LocalAddr().Port)
	m := &mute{Transport: conn}
	cfg := erpc.Config{Wait: erpc.WaitSleep}
	o.keys.Apply(&cfg)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	loop, err := erpc.NewLoop(m, cfg)
	if err != nil {
		return nil, err
	}
	c, err := loop.Dial(ctx, o.target)
	if err == nil {
		_, err = c.Call(ctx, echoType, make([]byte, 32))
	}
	if err == nil {
		err = loop.Post(func(*erpc.Rpc) { m.over = true })
	}
	if err = errors.Join(err, loop.Close(), s.reopen(port)); err != nil {
		return nil, err
	}
	return m.last, nil
}

// reopen gives the socket a port.
func (s *socket) reopen(port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.close()
	s.fd = fd
	return unix.Bind(fd, &unix.SockaddrInet4{Port: port})
}
