package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/security"
)

// bareSide is a side of a bare handshake. With keys its messages are encrypted, since crypto/tls
// leaves that to QUIC; keys of packets come from it; the client's last packet and the answer to it
// are sealed. That is the least of security that any session needs.
type bareSide struct {
	client bool
	begun  bool
	q      *tls.QUICConn
	hs     *security.Handshake // in place of q, with keys
	keys   *security.Association
}

// Sizes of what a Connect and a server say, on which the sides agree.
const bareParams, bareAnswer = 48, 12

func newSide(cfg *tls.Config, client, keys bool) *bareSide {
	s := &bareSide{client: client}
	switch {
	case keys:
		s.hs = security.NewTLS(cfg, client, security.Opening{
			Params: make([]byte, bareParams),
			Judge:  func([]byte) ([]byte, error) { return make([]byte, bareAnswer), nil },
		})
	case client:
		s.q = tls.QUICClient(&tls.QUICConfig{TLSConfig: cfg})
	default:
		s.q = tls.QUICServer(&tls.QUICConfig{TLSConfig: cfg})
	}
	return s
}

// step takes what has come, and returns what this side says.
func (s *bareSide) step(in []byte) (out []byte, done bool, err error) {
	if s.hs != nil {
		return s.stepKeys(in)
	}
	if !s.begun {
		s.begun = true
		s.q.SetTransportParameters(nil)
		if err = s.q.Start(context.Background()); err != nil {
			return nil, false, err
		}
	}
	return feed(s.q, in, !s.client)
}

// split returns the messages in a datagram of a handshake with keys, and what is behind them. Each
// has the size of its messages u16, those, and in a session perhaps a sealed packet.
func split(in []byte) (said, rest []byte, err error) {
	if len(in) < 2 {
		return nil, nil, nil
	}
	n := 2 + int(binary.LittleEndian.Uint16(in))
	if n > len(in) {
		return nil, nil, errors.New("a datagram is too short")
	}
	return in[2:n], in[n:], nil
}

// stepKeys is step with keys.
func (s *bareSide) stepKeys(in []byte) (out []byte, done bool, err error) {
	said, _, err := split(in)
	if err != nil {
		return nil, false, err
	}
	if out, err = s.hs.Step(said); err != nil {
		return nil, false, err
	}
	if done = s.hs.Done(); done && s.keys == nil {
		if s.keys, err = security.NewAssociation(s.hs.Secrets(), s.client); err != nil {
			return nil, false, err
		}
	}
	if !s.client || len(out) > 0 {
		out = append(binary.LittleEndian.AppendUint16(nil, uint16(len(out))), out...)
	}
	return out, done, nil
}

// drive makes a client's handshake. Ask sends what this side says and returns the answer; done says
// that there are keys.
func (s *bareSide) drive(ask func(say []byte, done bool) ([]byte, error)) error {
	var in []byte
	for {
		out, done, err := s.step(in)
		if err != nil {
			return err
		}
		if len(out) == 0 {
			if !s.state().HandshakeComplete {
				return errors.New("a handshake did not end")
			}
			return nil
		}
		if in, err = ask(out, done); err != nil {
			return fmt.Errorf("done %v: %w", done, err)
		}
	}
}

// last returns this side's last packet: a header, sealed.
func (s *bareSide) last() []byte {
	if s.keys == nil {
		return nil
	}
	const size = 24
	pkt, _ := s.keys.Seal(nil, make([]byte, size), nil)
	return pkt
}

// end takes the last packet of the other side.
func (s *bareSide) end(pkt []byte) error {
	if s.hs == nil {
		return s.q.Close()
	}
	if s.keys == nil {
		return errors.New("there are no keys yet")
	}
	_, err := s.keys.Open(pkt)
	return err
}

func (s *bareSide) state() *tls.ConnectionState {
	if s.hs != nil {
		return s.hs.TLS()
	}
	state := s.q.ConnectionState()
	return &state
}

func (s *bareSide) close() {
	if s.hs != nil {
		s.hs.Close()
	} else {
		_ = s.q.Close()
	}
}
