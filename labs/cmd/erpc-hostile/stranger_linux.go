package main

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/wire"
)

// stranger proves the address of each handshake that it begins, and lets the server wait then.
type stranger struct {
	*socket
	pkt     []byte // the second Connect
	connect wire.Connect
	said    []byte // the beginning of its part of each handshake
	nonce   int    // where in it the nonce is; 0 if it is not
}

const (
	// partsSize is how much each handshake of the attack parts sends of a message that would be as
	// long as a server takes any.
	partsSize = 16 << 10
	// strangerMTU is the size of the large packets of parts, bytes.
	strangerMTU = 8952
)

// runStranger begins handshakes at a rate, in turns from some addresses, and returns how many.
func runStranger(o options) (begun int, err error) {
	s := stranger{connect: wire.Connect{Epoch: 1, Session: wire.NoSession, Offer: offer}}
	if s.socket, err = openTo(o.target); err != nil {
		return 0, err
	}
	defer s.close()
	if err = s.prepare(o.attack == "parts"); err != nil {
		return 0, err
	}
	first := make([]byte, wire.HeaderSize+wire.ConnectSize+len(sealedExt))
	asked, none := 0, [wire.CookieSize]byte{}
	for start := time.Now(); time.Since(start) < o.duration; time.Sleep(time.Millisecond) {
		for due := int(time.Since(start).Seconds() * float64(o.rate)); asked < due; asked++ {
			n := uint32(asked % max(o.addresses, 1))
			s.connect.Nonce, s.connect.Cookie = rand.Uint64()<<32|uint64(n), none
			connect(first, &s.connect)
			if err = s.send(first, addressOf(n)); err != nil {
				return begun, err
			}
			if asked%16 == 0 { // before the answers fill the socket
				if err = s.goOn(&begun); err != nil {
					return begun, err
				}
			}
		}
		if err = s.goOn(&begun); err != nil {
			return begun, err
		}
	}
	return begun, nil
}

// prepare makes what each handshake says: a part of a message, or a whole ClientHello.
func (s *stranger) prepare(parts bool) error {
	s.connect.Offer.Features = wire.FeatureSeal
	size := mtu
	if parts {
		size = strangerMTU
	}
	s.pkt = make([]byte, size)
	s.connect.Offer.MTU = uint32(size - security.Overhead)
	if parts {
		s.said = make([]byte, partsSize)
		binary.LittleEndian.PutUint16(s.said[2:], partsSize) // behind these four bytes
		return nil
	}
	s.connect.Nonce = rand.Uint64()
	connect(s.pkt, &s.connect)
	body := s.pkt[wire.HeaderSize:][:wire.ConnectSize+len(sealedExt)]
	head, tail := wire.Fixed(body)
	hs := security.NewTLS(security.ClientConfig(&tls.Config{}, "127.0.0.1"), true,
		security.Opening{Params: append(bytes.Clone(head), tail...)})
	var err error
	s.said, err = hs.Step(nil)
	hs.Close()
	if s.nonce = bytes.Index(s.said, head); s.nonce < 0 && err == nil {
		err = errors.New("the ClientHello does not have the Connect")
	}
	return err
}

// goOn answers the Challenges that have come by what goes on with the handshakes, and counts them.
func (s *stranger) goOn(begun *int) error {
	var buf [mtu]byte
	for {
		n, _, err := unix.Recvfrom(s.fd, buf[:], unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ECONNREFUSED):
			return err
		case n < wire.HeaderSize+wire.ChallengeSize || buf[1] != byte(wire.OpChallenge):
			continue // the server says more
		}
		var ch wire.Challenge
		ch.Parse(buf[wire.HeaderSize:])
		*begun++
		if err = s.begin(&ch); err != nil {
			return err
		}
	}
}

// begin sends the second Connect of a handshake, and what it has no room for.
func (s *stranger) begin(ch *wire.Challenge) error {
	from := addressOf(uint32(ch.Nonce))
	s.connect.Nonce, s.connect.Cookie = ch.Nonce, ch.Cookie
	if s.nonce > 0 {
		binary.LittleEndian.PutUint64(s.said[s.nonce:], ch.Nonce)
	}
	padding := s.pkt[wire.HeaderSize+wire.ConnectSize+len(sealedExt):]
	room := min(wire.ChunkRoom(padding), len(s.said))
	wire.PutChunk(padding, wire.ChunkCrypto, s.said[:room])
	connect(s.pkt, &s.connect)
	if err := s.send(s.pkt, from); err != nil || room == len(s.said) {
		return err
	}
	rest := s.said[room:]
	pkt := make([]byte, wire.HeaderSize+wire.CryptoSize+len(rest))
	h := wire.Header{
		Type: wire.TypeMgmt, ReqType: uint8(wire.OpCrypto), Session: wire.NoSession,
		MsgSize: uint32(wire.CryptoSize + len(rest)),
	}
	h.Put(pkt, 0)
	c := wire.Crypto{Nonce: ch.Nonce, Offset: uint32(room)}
	c.Put(pkt[wire.HeaderSize:])
	copy(pkt[wire.HeaderSize+wire.CryptoSize:], rest)
	wire.SealMgmt(pkt, 0)
	return s.send(pkt, from)
}
