package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/userspace-rpc/erpc/wire"
)

// mtu is the size of large Connects, bytes.
const mtu = 1472

// source returns the packets of an attack.
func (s *socket) source(o options) (source, error) {
	home := [4]byte{127, 0, 0, 1}
	switch o.attack {
	case "junk":
		pkt := make([]byte, o.size)
		return func() ([]byte, [4]byte) {
			pkt[0] = 0xFF // no version
			return pkt, anywhere()
		}, nil
	case "forged":
		return s.forge(&o)
	case "connect", "version", "shake":
		offer, size := offer, wire.HeaderSize+wire.ConnectSize
		if o.attack == "shake" {
			offer.Features = wire.FeatureSeal
			size += len(sealedExt)
		}
		pkt := make([]byte, size)
		return func() ([]byte, [4]byte) {
			connect(pkt, &wire.Connect{Nonce: rand.Uint64(), Epoch: 1, Offer: offer})
			if o.attack == "version" {
				pkt[0] = pkt[0]&0x0F | 1<<4
			}
			return pkt, anywhere()
		}, nil
	case "cookie", "shake-cookie":
		offer := offer
		if o.attack == "shake-cookie" {
			offer.Features = wire.FeatureSeal
		}
		pkt := make([]byte, mtu)
		return func() ([]byte, [4]byte) {
			c := wire.Connect{Nonce: rand.Uint64(), Epoch: 1, Offer: offer}
			for i := range c.Cookie {
				c.Cookie[i] = byte(rand.Uint32())
			}
			connect(pkt, &c)
			return pkt, anywhere()
		}, nil
	case "hog-memory":
		return s.hollow()
	case "repeat-bundle", "same-bundle":
		return s.repeats(o.attack == "repeat-bundle")
	case "repeat", "same":
		peer, err := s.dial()
		if err != nil {
			return nil, err
		}
		pkt := make([]byte, wire.HeaderSize+32)
		try := uint16(0)
		return func() ([]byte, [4]byte) {
			if o.attack == "repeat" {
				try++
			}
			h := wire.Header{
				Type: wire.TypeReq, ReqType: echoType, MsgSize: 32, Session: peer.Session,
				ReqNum: uint64(peer.Offer.Slots), Hold: wire.TryHold(try, 0),
			}
			h.Put(pkt, peer.Token)
			if peer.Offer.Features&wire.FeatureChecksum != 0 {
				wire.SetToken(pkt, peer.Token^wire.Checksum(pkt, nil))
			}
			return pkt, home
		}, nil
	}
	return nil, fmt.Errorf("no attack %q", o.attack)
}

// inBundle is how many packets the attacks with bundles have in each.
const inBundle = 25

// repeats returns bundles that repeat one request, with another try in each packet or with the
// same.
func (s *socket) repeats(vary bool) (source, error) {
	o := offer
	o.Features = wire.FeatureBundle
	peer, err := s.dialWith(o, [4]byte{127, 0, 0, 1})
	if err != nil {
		return nil, err
	}
	h := wire.Header{
		Type: wire.TypeReq, ReqType: echoType, MsgSize: 32, Session: peer.Session,
		ReqNum: uint64(peer.Offer.Slots),
	}
	pkt := make([]byte, wire.BundleHeaderSize+inBundle*wire.RecordSize(&h, 32, false))
	try := uint16(0)
	return func() ([]byte, [4]byte) {
		at := wire.BundleHeaderSize
		for range inBundle {
			if vary {
				try++
			}
			h.Hold = wire.TryHold(try, 0)
			at += wire.PutRecord(pkt[at:], &h, 32, false, 0) + 32
		}
		wire.PutBundle(pkt, wire.Version, inBundle, at-wire.BundleHeaderSize, peer.Session, peer.Token)
		if peer.Offer.Features&wire.FeatureChecksum != 0 {
			wire.SetToken(pkt, peer.Token^wire.Checksum(pkt, nil))
		}
		return pkt, [4]byte{127, 0, 0, 1}
	}, nil
}

// echoType is the request type of the echo of "erpc server".
const echoType = 1

var offer = wire.Offer{Credits: 32, Slots: 8, MTU: mtu, MaxMessage: claimedLength}

// sealedExt is what a secure client says behind the body of a Connect: its index.
var sealedExt = wire.AppendExtension(nil, wire.Extension{Type: wire.ExtIndex,
	Value: []byte{0, 0, 1, 0}})

// connect writes a Connect that fills pkt.
func connect(pkt []byte, c *wire.Connect) {
	h := wire.Header{
		Type: wire.TypeMgmt, ReqType: uint8(wire.OpConnect), MsgSize: wire.ConnectSize,
		Session: wire.NoSession,
	}
	if c.Offer.Features&wire.FeatureSeal != 0 {
		h.MsgSize += uint32(copy(pkt[wire.HeaderSize+wire.ConnectSize:], sealedExt))
	}
	h.Put(pkt, 0)
	c.Put(pkt[wire.HeaderSize:])
	wire.SealMgmt(pkt, 0)
}

// dial opens a session as an honest client does, and returns what the server accepted.
func (s *socket) dial() (*wire.Accept, error) { return s.dialFrom([4]byte{127, 0, 0, 1}) }

// dialFrom is dial from an address.
func (s *socket) dialFrom(from [4]byte) (*wire.Accept, error) { return s.dialWith(offer, from) }

// dialWith is dialFrom with another offer.
func (s *socket) dialWith(offer wire.Offer, from [4]byte) (*wire.Accept, error) {
	c := wire.Connect{
		Nonce: rand.Uint64(), Epoch: s.epoch, Session: 1, Token: rand.Uint32(), Offer: offer,
	}
	if c.Epoch == 0 {
		c.Epoch = rand.Uint64()
	}
	for range 100 {
		pkt := make([]byte, mtu)
		if c.Cookie == ([wire.CookieSize]byte{}) {
			pkt = pkt[:wire.HeaderSize+wire.ConnectSize]
		}
		connect(pkt, &c)
		if err := s.send(pkt, from); err != nil {
			return nil, err
		}
		a, more, err := s.answer(&c)
		for ; more; a, more, err = s.answer(&c) {
		}
		if a != nil || err != nil {
			return a, err
		}
	}
	return nil, fmt.Errorf("nobody answers at the target")
}

// answer takes the next packet that came: the Accept of c, or a Challenge, whose cookie goes into
// c. More says that it was another packet, such as a late answer to the dial before.
func (s *socket) answer(c *wire.Connect) (a *wire.Accept, more bool, err error) {
	pkt, err := s.receive()
	if pkt == nil || err != nil {
		return nil, false, err
	}
	var h wire.Header
	if h.Parse(pkt) != nil || h.Type != wire.TypeMgmt {
		return nil, true, nil
	}
	body := pkt[wire.HeaderSize:]
	switch wire.Op(h.ReqType) {
	case wire.OpChallenge:
		var ch wire.Challenge
		if ch.Parse(body); ch.Nonce == c.Nonce {
			c.Cookie = ch.Cookie
			return nil, false, nil
		}
	case wire.OpAccept:
		a := new(wire.Accept)
		if a.Parse(body); a.Nonce == c.Nonce {
			return a, false, nil
		}
	case wire.OpRefuse:
		var r wire.Refuse
		if r.Parse(body); r.Nonce == c.Nonce {
			return nil, false, fmt.Errorf("refused: %v", r.Code)
		}
	}
	return nil, true, nil
}
