package wire

import (
	"testing"
	"time"
)

// TestTryHold compares fields with the layout that the wire has: six bits of try, above
// them ten bits of hold time in units of 1024 ns.
func TestTryHold(t *testing.T) {
	for _, c := range []struct {
		try   uint16
		hold  time.Duration
		field uint16
		back  time.Duration
		known bool
	}{
		{0, 0, 0, 0, true},
		{63, 0, 63, 0, true},
		{64, 0, 0, 0, true},
		{65, 1023, 1, 0, true},
		{63, 1024, 63 + 1<<6, 1024, true},
		{63, 5 * 1024, 63 + 5<<6, 5 * 1024, true},
		{1<<16 - 1, 6*1024 - 1, 63 + 5<<6, 5 * 1024, true},
		{0, 1023*1024 - 1, 1022 << 6, 1022 * 1024, true},
		{0, 1023 * 1024, 1023 << 6, 1023 * 1024, false},
		{7, 1 << 40, 7 + 1023<<6, 1023 * 1024, false},
		{7, 1<<63 - 1, 7 + 1023<<6, 1023 * 1024, false},
		{7, -1, 7, 0, true},
		{7, -1 << 63, 7, 0, true},
	} {
		field := TryHold(c.try, c.hold)
		if field != c.field {
			t.Errorf("TryHold(%d, %d) = %#x, want %#x", c.try, c.hold, field, c.field)
		}
		if hold, known := CoarseHold(c.field); hold != c.back || known != c.known {
			t.Errorf("CoarseHold(%#x) = %d, %v, want %d, %v", c.field, hold, known, c.back, c.known)
		}
	}
}

// TestSameTry: only the try counts, and of it only the number mod 64.
func TestSameTry(t *testing.T) {
	for a := range uint16(130) {
		for b := range uint16(130) {
			got := SameTry(TryHold(a, time.Duration(b)<<12), TryHold(b, 77777))
			if want := a%64 == b%64; got != want {
				t.Errorf("tries %d and %d: %v, want %v", a, b, got, want)
			}
		}
	}
}

// TestSessionOf: the session number of each packet that is long enough for a header.
func TestSessionOf(t *testing.T) {
	pkt := packet(Header{Type: TypeCR, ReqType: 1, Session: 0x01020304}, 0, []byte("payload"))
	for n := range len(pkt) + 1 {
		session, ok := SessionOf(pkt[:n:n])
		if ok != (n >= HeaderSize) || ok && session != 0x01020304 || !ok && session != 0 {
			t.Errorf("%d bytes: session %#x, %v", n, session, ok)
		}
	}
}

// TestOfferFits: an offer is written to and read from as many bytes as it has.
func TestOfferFits(t *testing.T) {
	b := make([]byte, offerSize)
	want := Offer{Credits: 1, Slots: 2, MTU: 3, MaxMessage: 4, Features: 5, Waiting: 6}
	want.put(b)
	var got Offer
	got.parse(b)
	if got != want {
		t.Errorf("wrote %+v, read %+v", want, got)
	}
}
