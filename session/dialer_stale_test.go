package session_test

import (
	"testing"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/wire"
)

// TestStaleAccept: an Accept that was under way while the dialer lowered its offer
// is no reason to give up, but the offer that holds is the lower one.
func TestStaleAccept(t *testing.T) {
	timing, err := session.Timing{}.Fill()
	if err != nil {
		t.Fatal(err)
	}
	offer := wire.Offer{Credits: 8, Slots: 8, MTU: 1472, MaxMessage: 1 << 20}
	d := session.NewDialer(packet.Addr{Port: 2}, wire.Connect{Nonce: 5, Offer: offer}, timing, 0)
	out := session.NewOut(8, false)
	now := monotime.Time(0)
	if err := d.Tick(now, out); err != nil {
		t.Fatal(err)
	}
	d.OnChallenge(&wire.Challenge{Nonce: 5, Cookie: [wire.CookieSize]byte{1}}, now, out)
	for d.Connect.Offer.MTU == offer.MTU {
		now = d.NextAt()
		if err := d.Tick(now, out); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, ok, err := d.OnAccept(&wire.Accept{Nonce: 5, Offer: offer}, now); ok || err != nil {
		t.Errorf("the stale Accept: %v, %v; want it ignored", ok, err)
	}
	p, _, ok, err := d.OnAccept(&wire.Accept{Nonce: 5, Offer: d.Connect.Offer}, now)
	if !ok || err != nil || p.PerPacket != int(d.Connect.Offer.MTU)-wire.HeaderSize {
		t.Errorf("the Accept: %+v, %v, %v", p, ok, err)
	}
}
