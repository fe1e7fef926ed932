package security

import (
	"bytes"
	"crypto/cipher"
	"crypto/tls"
	"errors"
	"math"
	"testing"

	"github.com/userspace-rpc/erpc/wire"
)

// TestWindowInARow: counters that come one after the other are fresh once, through all words of the
// window and again.
func TestWindowInARow(t *testing.T) {
	var w window
	for n := range uint64(5 * 64 * windowWords) {
		if !w.fresh(n) {
			t.Fatalf("%d was not seen", n)
		}
		if w.add(n); w.fresh(n) || w.next != n+1 {
			t.Fatalf("%d was seen; next %d", n, w.next)
		}
	}
}

// TestWindowEdges: the oldest counter that is told apart, and the one before, after jumps of all
// sizes around those of a word and of the window, from a place in a word to any other.
func TestWindowEdges(t *testing.T) {
	for _, around := range []uint64{1, 64, WindowSize, 64 * windowWords, 1 << 32} {
		for _, from := range []uint64{0, 1, 31, 62, 63, 64, 65} {
			for jump := around - min(around, 66); jump < around+66; jump++ {
				windowEdge(t, from, from+jump)
			}
		}
	}
}

func windowEdge(t *testing.T, from, to uint64) {
	var w window
	for i := range w.bits {
		w.bits[i] = math.MaxUint64 // what was seen 8192 counters before
	}
	w.next = 1 << 20
	from += w.next
	to += w.next
	w.add(from)
	if to != from {
		w.add(to)
	}
	for n := to - WindowSize - 2; n != to+3; n++ {
		want := n > to || n+WindowSize > to && n > from && n < to
		if n < from && n+WindowSize > to && n >= 1<<20 {
			want = true // between the first counters and from
		}
		if n < 1<<20 {
			continue // all of them were seen
		}
		if w.fresh(n) != want {
			t.Fatalf("%d and then %d: fresh(%d) %v", from, to, n, !want)
		}
	}
}

// TestLastCounters: the last counters seal, but for the very last, and each is opened once; after
// that nothing is sealed.
func TestLastCounters(t *testing.T) {
	a, b := testPair(t)
	a.counter, b.window.next = maxCounter-200, maxCounter-200
	var all [][]byte
	for range 200 {
		out, _ := a.Seal(nil, testPacket(30, 3), nil)
		all = append(all, bytes.Clone(out))
		if _, err := b.Open(out); err != nil {
			t.Fatal(err)
		}
		for _, again := range all {
			if _, err := b.Open(bytes.Clone(again)); err != ErrReplay {
				t.Fatal(err)
			}
		}
	}
	if _, ok := a.Seal(nil, testPacket(20, 0), nil); ok || !a.Spent() {
		t.Error("sealed by the last counter")
	}
	if a.Counter() != 1<<56-1 || b.Newest() != 1<<56-1 {
		t.Errorf("%d sealed, %d opened", a.Counter(), b.Newest())
	}
}

// TestBytesOfAPhase: what is sealed and opened counts with all its bytes, and no more; keys change
// when their bytes are full, and not before. After twice as many nothing is sealed.
func TestBytesOfAPhase(t *testing.T) {
	const size = 40 + Overhead
	for _, less := range []uint64{0, 1} {
		for _, opens := range []bool{false, true} {
			a, b := testPair(t)
			a.bytes = bytesPerPhase - size - less
			if opens {
				carry(t, b, a) // of 30 bytes
				a.bytes += 10
			} else {
				_, _ = a.Seal(make([]byte, 7, 100), testPacket(40, 1), nil)
			}
			if less > 0 && (a.bytes != bytesPerPhase-less || a.packets != 1) {
				t.Errorf("opens %v: %d bytes in %d packets", opens, a.bytes, a.packets)
			}
			if !opens && a.Phase() != 1-less {
				t.Errorf("%d bytes less: phase %d", less, a.Phase())
			}
		}
		a, _ := testPair(t)
		a.Update() // the peer does not follow
		a.bytes = 2*bytesPerPhase - less
		if _, ok := a.Seal(nil, testPacket(20, 0), nil); ok != (less > 0) {
			t.Errorf("%d bytes less than are allowed: sealed %v", less, ok)
		}
	}
}

// TestNoWayAhead: who opened the association is alone in changing keys. A packet of the
// other side that says it has done so counts as forged, and nothing else happens.
func TestNoWayAhead(t *testing.T) {
	a, b := testPair(t)
	b.advance()
	out, _ := b.Seal(nil, testPacket(30, 1), nil)
	if _, err := a.Open(out); err != ErrForged || a.Forged() != 1 {
		t.Errorf("%v, %d forged", err, a.Forged())
	}
	if a.Phase() != 0 || a.recvPhase != 0 || a.Newest() != 0 {
		t.Errorf("phase %d, %d; newest %d", a.Phase(), a.recvPhase, a.Newest())
	}
}

// TestForgeries: the last forgery that is allowed counts, and ends all.
func TestForgeries(t *testing.T) {
	for less := range uint64(3) {
		a, b := testPair(t)
		b.forged = AES128GCM.forgeries() - less
		_, _ = b.Open(make([]byte, minSealed+Overhead))
		if want := b.aead.forgeries() - max(less, 1) + 1; less > 0 && b.Forged() != want {
			t.Errorf("%d less: %d forged, want %d", less, b.Forged(), want)
		}
		over := less <= 1
		out, _ := a.Seal(nil, testPacket(20, 0), nil)
		if _, err := b.Open(out); err != nil != over || over && err != ErrExhausted {
			t.Errorf("%d less: %v", less, err)
		}
	}
}

// TestClearPart: what stands in the clear is the counter, the field that the receiver chose, and
// the key phase, whatever bits the packet has; the phase is never part of the field.
func TestClearPart(t *testing.T) {
	a, b := testPair(t)
	a.Address(0xFF_FE_0003)
	a.counter = 1<<48 + 3
	for phase := range uint64(3) {
		out, _ := a.Seal(nil, bytes.Repeat([]byte{0xFF}, 40), nil)
		if !wire.IsSealed(out) || wire.SealedCounter(out) != 1<<48+3+phase ||
			wire.SealedField(out) != 0x7F_FE_0003 || uint64(out[phaseAt]>>7) != phase&1 {
			t.Errorf("phase %d: % x", phase, out[:clearSize])
		}
		if got, err := b.Open(out); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{0xFF}, 40)) {
			t.Fatal(err)
		}
		carry(t, b, a)
		a.Update()
	}
}

// TestInPlace: what is opened is the datagram's own memory behind the clear part: nothing moves.
func TestInPlace(t *testing.T) {
	a, b := testPair(t)
	out, _ := a.Seal(nil, testPacket(40, 1), nil)
	got, err := b.Open(out)
	if err != nil || &got[0] != &out[clearSize] || len(got) != len(out)-Overhead {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestIsNewest: a packet is the newest of all if no later one was opened before; what is not opened
// says nothing.
func TestIsNewest(t *testing.T) {
	a, b := testPair(t)
	var pkts [4][]byte
	for i := range pkts {
		pkts[i], _ = a.Seal(nil, testPacket(30, byte(i)), nil)
	}
	for _, c := range []struct {
		pkt    int
		newest bool
	}{{0, true}, {2, true}, {1, false}, {3, true}} {
		if _, err := b.Open(bytes.Clone(pkts[c.pkt])); err != nil || b.IsNewest() != c.newest {
			t.Errorf("packet %d: newest %v, %v", c.pkt, b.IsNewest(), err)
		}
		if c.pkt == 2 {
			_, _ = b.Open(bytes.Clone(pkts[0])) // again
			if _, err := b.Open(make([]byte, 100)); err == nil || !b.IsNewest() {
				t.Error("what was not opened has changed it")
			}
		}
	}
}

// TestLateInTurn: late packets of the phase before are opened in any order.
func TestLateInTurn(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {1, 0, 2}} {
		a, b := testPair(t)
		var late [3][]byte
		for i := range late {
			late[i], _ = a.Seal(nil, testPacket(30, byte(i)), nil)
		}
		a.Update()
		ahead, _ := a.Seal(nil, testPacket(30, 8), nil)
		carry(t, a, b)
		for _, i := range order {
			if _, err := b.Open(late[i]); err != nil {
				t.Errorf("order %v, packet %d: %v", order, i, err)
			}
		}
		if _, err := b.Open(ahead); err != nil || b.Forged() != 0 { // of this phase, and late
			t.Errorf("order %v: %v, %d forged", order, err, b.Forged())
		}
	}
}

// TestShortest: a packet of one byte less than the shortest is no sealed packet, to an Opener too.
func TestShortest(t *testing.T) {
	s := &Secrets{AEAD: AES128GCM}
	a, _ := NewAssociation(s, true)
	b, _ := NewAssociation(s, false)
	o, err := NewOpener(&logged(t, s, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	a.Address(toServer)
	out, _ := a.Seal(nil, testPacket(minSealed, 1), nil)
	if _, _, ok := o.Open(nil, out); !ok || len(out) != minSealed+Overhead {
		t.Errorf("not opened; %d bytes", len(out))
	}
	if _, err := b.Open(out[:len(out)-1]); err != ErrShort {
		t.Error(err)
	}
	if _, err := b.Open(out); err != nil {
		t.Error(err)
	}
}

// TestCiphersOfAProgram: a cipher is there from the moment it is registered, and one with another
// number never.
func TestCiphersOfAProgram(t *testing.T) {
	if makers[ChaCha20Poly1305] != nil {
		t.Fatal("somebody linked it")
	}
	slow := Own() &^ 1
	if slow != 1<<AES128GCM || (Own()&1 != 0) != HasAES() {
		t.Errorf("%08b", Own())
	}
	if _, err := ChaCha20Poly1305.New(make([]byte, 32)); !errors.Is(err, ErrNoCipher) {
		t.Error(err)
	}
	Register(ChaCha20Poly1305, func(key []byte) (cipher.AEAD, error) { return newGCM(key) })
	defer Register(ChaCha20Poly1305, nil)
	if own := Own() &^ 1; own != 1<<AES128GCM|1<<ChaCha20Poly1305 {
		t.Errorf("%08b", own)
	}
	if _, err := ChaCha20Poly1305.New(make([]byte, 32)); err != nil {
		t.Error(err)
	}
	for _, a := range []AEAD{0, numAEADs, numAEADs + 1, 255} {
		if _, err := a.New(make([]byte, 32)); !errors.Is(err, ErrNoCipher) || a.Has() {
			t.Errorf("cipher %d: %v", a, err)
		}
	}
	if got := Ciphers(0xFF).String(); got != "AES-128-GCM, ChaCha20-Poly1305" {
		t.Error(got)
	}
}

// TestChosenCipher: a client takes from the server a cipher that it offered, and no other.
func TestChosenCipher(t *testing.T) {
	judge := func([]byte) ([]byte, error) { return nil, nil }
	for _, c := range []struct {
		mine   Ciphers
		chosen byte
		want   AEAD
	}{
		{0b110, 1, AES128GCM}, {0b110, 2, ChaCha20Poly1305}, {0b111, 0, 0}, {0b100, 1, 0},
		{0b010, 2, 0}, {0xFF, numAEADs, 0}, {0xFF, numAEADs + 1, 0}, {0xFF, 255, 0},
	} {
		h := &Handshake{client: true, mine: c.mine, judge: judge}
		got, err := h.conclude([]byte{c.chosen})
		if c.want == 0 && err != ErrNoCipher || c.want != 0 && (err != nil || got != c.want) {
			t.Errorf("%d of %08b: %v, %v", c.chosen, c.mine, got, err)
		}
	}
}

// TestFrames: which heads of frames are taken, each at its edge.
func TestFrames(t *testing.T) {
	const most = maxFrame + tagSize
	for _, c := range []struct {
		level, zero byte
		size, have  int
		rest        int // -1: more has to come, -2: malformed
	}{
		{0, 0, 0, 0, -2}, {0, 0, 0, 5, -2}, {0, 0, 9, 8, -1}, {0, 0, 9, 9, 0}, {0, 0, 9, 10, 1},
		{0, 0, most, 0, -1}, {0, 0, most, most, 0}, {0, 0, most + 1, 0, -2},
		{0, 0, 1<<16 - 1, 0, -2}, {0, 1, 1, 0, -2}, {1, 0, 1, 0, -2}, {2, 0, 1, 0, -1},
		{3, 0, 1, 0, -1}, {2, 0, 1, 1, -2}, // no keys yet
		{4, 0, 1, 0, -2}, {4, 0, 1, 1, -2}, {255, 0, 0, 0, -2},
	} {
		b := append([]byte{c.level, c.zero, byte(c.size), byte(c.size >> 8)}, make([]byte, c.have)...)
		level, msg, rest, err := new(Handshake).nextFrame(b)
		switch {
		case c.rest == -2:
			if err != ErrMessage {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || (rest == nil) != (c.rest == -1):
			t.Errorf("%+v: %v, rest %v", c, err, rest)
		case rest != nil && (len(msg) != c.size || len(rest) != c.rest || byte(level) != c.level):
			t.Errorf("%+v: %v, %d bytes and %d", c, level, len(msg), len(rest))
		}
	}
	for n := range frameHead {
		if _, _, rest, err := new(Handshake).nextFrame(make([]byte, n)); rest != nil || err != nil {
			t.Errorf("%d bytes: %v, %v", n, rest, err)
		}
	}
}

// TestLongMessages: a message is cut into frames of maxFrame bytes, and comes back whole.
func TestLongMessages(t *testing.T) {
	for _, n := range []int{1, maxFrame - 1, maxFrame, maxFrame + 1, 2 * maxFrame, 2*maxFrame + 1} {
		var k frameKey
		h := new(Handshake)
		k.set([]byte("secret"))
		h.read[tls.QUICEncryptionLevelHandshake].set([]byte("secret"))
		msg := bytes.Repeat([]byte{1, 2, 3}, n)[:n]
		b := k.appendFrame(nil, tls.QUICEncryptionLevelHandshake, msg)
		if want := n + (n+maxFrame-1)/maxFrame*(frameHead+tagSize); len(b) != want {
			t.Errorf("%d bytes became %d, want %d", n, len(b), want)
		}
		var got []byte
		for len(b) > 0 {
			_, part, rest, err := h.nextFrame(b)
			if err != nil || rest == nil {
				t.Fatal(err)
			}
			got, b = append(got, part...), rest
		}
		if !bytes.Equal(got, msg) {
			t.Errorf("%d bytes came back as %d", n, len(got))
		}
	}
}

// TestMostOfAStream: as much as a peer may say at once is looked at, and a byte more is not.
func TestMostOfAStream(t *testing.T) {
	for more, want := range []error{ErrKey, ErrMessage} {
		_, server := pskPair(nil)
		in := append([]byte{100, 0}, make([]byte, MaxStream-2+more)...) // by a key with another name
		if _, err := server.Step(in); err != want || server.TLS() != nil {
			t.Errorf("%d bytes: %v, want %v", len(in), err, want)
		}
	}
}
