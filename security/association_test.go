package security

import (
	"bytes"
	"crypto/cipher"
	"encoding/hex"
	"math/rand/v2"
	"testing"
)

func testPair(t testing.TB) (client, server *Association) {
	t.Helper()
	s := newSecrets(AES128GCM, &Secret{1, 2, 3})
	client, err := NewAssociation(s, true)
	if err == nil {
		server, err = NewAssociation(s, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	client.Address(toServer)
	server.Address(toClient)
	return client, server
}

// The fields by which the two sides of testPair find their associations: loop, generation, place.
const toServer, toClient = 0x05_FE_0003, 0x00_01_0002

func testPacket(n int, tag byte) []byte {
	p := make([]byte, max(n, minSealed))
	for i := range p {
		p[i] = byte(i)*3 + tag
	}
	return p
}

// TestKnownAnswers: the schedule and a sealed packet are those of another implementation (Python's
// hmac and cryptography, RFC 5869 and RFC 8446, section 7.1, with the label prefix "erpc3 ").
func TestKnownAnswers(t *testing.T) {
	s := newSecrets(AES128GCM, &Secret{1, 2, 3})
	k, err := newKeys(AES128GCM, &s.Client)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want string }{
		"client": {hex.EncodeToString(s.Client[:]), kaClient},
		"server": {hex.EncodeToString(s.Server[:]), kaServer},
		"iv":     {hex.EncodeToString(k.iv[:]), kaIV},
		"packet": {hex.EncodeToString(kaSeal(t)), kaPacket},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
}

func kaSeal(t *testing.T) []byte {
	a, _ := testPair(t)
	a.counter = 0xA1_B2C3_0000_0002
	out, ok := a.Seal(nil, testPacket(40, 7), nil)
	if !ok {
		t.Fatal("not sealed")
	}
	return out
}

// TestSealOpen: every size comes back, in one part or two, and only once.
func TestSealOpen(t *testing.T) {
	a, b := testPair(t)
	for n := minSealed; n < 3000; n += 1 + n/16 {
		pkt := testPacket(n, 1)
		head := pkt[:minSealed+(n-minSealed)/2]
		out, ok := a.Seal(make([]byte, 3, 4000), head, pkt[len(head):])
		if !ok || len(out) != 3+n+Overhead {
			t.Fatalf("%d bytes became %d", n, len(out)-3)
		}
		got, err := b.Open(bytes.Clone(out[3:]))
		if err != nil || !bytes.Equal(got, pkt) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if _, err := b.Open(bytes.Clone(out[3:])); err != ErrReplay {
			t.Fatal(err)
		}
		if _, err := a.Open(bytes.Clone(out[3:])); err == nil {
			t.Fatal("a side opened its own packet")
		}
	}
}

// TestTampering: no bit of a packet can change, no byte be missing, and none of another association
// is taken. The packet itself is still good after all that.
func TestTampering(t *testing.T) {
	a, b := testPair(t)
	other, _ := NewAssociation(newSecrets(AES128GCM, &Secret{9}), true)
	out, _ := a.Seal(nil, testPacket(60, 2), nil)
	for bit := range len(out) * 8 {
		bad := bytes.Clone(out)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := b.Open(bad); err == nil {
			t.Errorf("bit %d does not matter", bit)
		}
	}
	for n := range out {
		if _, err := b.Open(bytes.Clone(out[:n])); err == nil {
			t.Errorf("%d bytes are enough", n)
		}
	}
	other.Address(toServer)
	foreign, _ := other.Seal(nil, testPacket(60, 2), nil)
	for cut := range out {
		mixed := append(bytes.Clone(foreign[:cut]), out[cut:]...)
		if bytes.Equal(mixed, out) {
			continue // they begin alike
		}
		if _, err := b.Open(mixed); err == nil {
			t.Errorf("spliced at %d", cut)
		}
	}
	if b.Forged() == 0 {
		t.Error("nothing was counted")
	}
	if _, err := b.Open(out); err != nil {
		t.Error("the packet itself:", err)
	}
}

// TestNonces: over many seeds with loss, repetition, reordering and key updates no key has a nonce
// twice, each packet opens as it was sealed, nothing is opened twice, and both sides end in step.
func TestNonces(t *testing.T) {
	seeds := 10_000
	if testing.Short() {
		seeds = 500
	}
	for seed := range seeds {
		runNonces(t, uint64(seed))
	}
}

type sealedPacket struct{ data, plain []byte }

func runNonces(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	var ends [2]*Association
	ends[0], ends[1] = testPair(t)
	used := map[string]bool{}
	for i := range ends {
		ends[i].send.aead = &spy{ends[i].send.aead, used, string(ends[i].send.secret[:])}
		if r.IntN(3) == 0 { // nothing ends with a half
			ends[i].counter = 1<<32 - 20
			ends[1-i].window.next = ends[i].counter
		}
	}
	var flight [2][]sealedPacket
	opened := [2]map[string]bool{{}, {}}
	step := func(i int, lossy bool) {
		a := ends[i]
		if _, ok := a.send.aead.(*spy); !ok {
			a.send.aead = &spy{a.send.aead, used, string(a.send.secret[:])}
		}
		if lossy && r.IntN(8) == 0 && a.Update() {
			a.send.aead = &spy{a.send.aead, used, string(a.send.secret[:])}
		}
		plain := testPacket(minSealed+r.IntN(40), byte(r.Uint32()))
		out, _ := a.Seal(nil, plain, nil)
		if !lossy || r.IntN(4) > 0 {
			flight[i] = append(flight[i], sealedPacket{out, plain})
		}
	}
	deliver := func(i int, lossy bool) {
		f := flight[i]
		at := 0
		if lossy {
			at = r.IntN(len(f))
		}
		p := f[at]
		got, err := ends[1-i].Open(bytes.Clone(p.data))
		if err == nil && (!bytes.Equal(got, p.plain) || opened[1-i][string(p.data)]) {
			t.Fatalf("seed %d: opened wrongly", seed)
		}
		if err == nil {
			opened[1-i][string(p.data)] = true
		} else if !lossy {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !lossy || r.IntN(5) > 0 {
			flight[i] = append(f[:at:at], f[at+1:]...)
		}
	}
	for range 60 {
		i := r.IntN(2)
		if step(i, true); len(flight[i]) > 0 && r.IntN(3) > 0 {
			deliver(i, true)
		}
	}
	flight = [2][]sealedPacket{}
	for i := range 4 { // nothing is lost any more
		step(i%2, false)
		deliver(i%2, false)
	}
	if ends[0].sendPhase != ends[1].recvPhase || ends[0].recvPhase != ends[1].sendPhase {
		t.Fatalf("seed %d: out of step", seed)
	}
}

// spy notes the nonces of a key.
type spy struct {
	cipher.AEAD
	used map[string]bool
	key  string
}

func (s *spy) Seal(dst, nonce, plain, aad []byte) []byte {
	name := s.key + string(nonce)
	if s.used[name] {
		panic("a nonce came twice")
	}
	s.used[name] = true
	return s.AEAD.Seal(dst, nonce, plain, aad)
}

// TestUpdates: the opener begins, the other side follows, and late packets of the phase before are
// opened; neither is ever two ahead.
func TestUpdates(t *testing.T) {
	a, b := testPair(t)
	if b.Update() {
		t.Error("the side that answered has begun")
	}
	send := func(from, to *Association) {
		out, _ := from.Seal(nil, testPacket(30, 3), nil)
		if _, err := to.Open(out); err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	for phase := range uint64(5) {
		late, _ := a.Seal(nil, testPacket(30, 4), nil)
		if !a.Update() || a.Update() {
			t.Fatal("one update at a time")
		}
		send(a, b)
		if _, err := b.Open(late); err != nil {
			t.Fatal("a late packet:", err)
		}
		if b.Phase() != phase+1 {
			t.Fatal("the other side has not followed")
		}
		send(b, a)
	}
}

// TestLimits: keys change in time, and a peer that does not follow gets nothing; too many forgeries
// end all.
func TestLimits(t *testing.T) {
	a, b := testPair(t)
	a.maxPackets = 10
	for range 10 {
		_, _ = a.Seal(nil, testPacket(20, 0), nil)
	}
	if a.Phase() != 1 {
		t.Error("the keys are the old ones")
	}
	sent := 0
	for ; sent < 100; sent++ {
		if _, ok := a.Seal(nil, testPacket(20, 0), nil); !ok {
			break
		}
	}
	if sent != 20 {
		t.Errorf("%d packets by keys for 10", sent)
	}
	b.forged = AES128GCM.forgeries()
	out, _ := b.Seal(nil, testPacket(20, 0), nil)
	if _, err := b.Open(out); err != ErrExhausted {
		t.Error(err)
	}
}

func TestAllocs(t *testing.T) {
	a, b := testPair(t)
	pkt, buf := testPacket(1400, 1), make([]byte, 0, 2000)
	if n := testing.AllocsPerRun(1000, func() {
		out, _ := a.Seal(buf, pkt[:24], pkt[24:])
		if _, err := b.Open(out); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestWindow compares the window with a set.
func TestWindow(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var w window
		seen := map[uint64]bool{}
		jump := uint64(1) << r.IntN(16)
		for range 500 {
			n := w.next + r.Uint64N(jump)
			if r.IntN(2) == 0 {
				n = w.next - min(w.next, r.Uint64N(2*WindowSize))
			}
			want := !seen[n] && n+WindowSize >= w.next
			if got := w.fresh(n); got != want {
				t.Fatalf("%d of %d: %v", n, w.next, got)
			}
			if want {
				w.add(n)
				seen[n] = true
			}
		}
	}
}

// FuzzOpen: the association refuses every packet that the peer did not seal, and opens the next one
// that the peer did seal.
func FuzzOpen(f *testing.F) {
	a, _ := testPair(f)
	out, _ := a.Seal(nil, testPacket(50, 1), nil)
	f.Add(out)
	for _, size := range []int{0, minSealed + Overhead - 1, minSealed + Overhead, len(out) - 1} {
		f.Add(out[:size]) // a right index and counter, and a size that is wrong
	}
	_, b := testPair(f)
	own, _ := b.Seal(nil, testPacket(50, 1), nil) // would be right
	for _, at := range []int{1, 7, 8, 10, 11, 12, len(own) - 1} {
		bad := bytes.Clone(own)
		bad[at] ^= 0x80 // counter, index, loop, key phase, message, tag
		f.Add(bad)
	}
	f.Fuzz(func(t *testing.T, pkt []byte) {
		a, b := testPair(t)
		if _, err := a.Open(bytes.Clone(pkt)); err == nil {
			if !bytes.Equal(pkt, own) { // which one bit of a seed may become again
				t.Fatal("opened")
			}
			return
		}
		good, _ := b.Seal(nil, testPacket(20, 2), nil)
		if _, err := a.Open(good); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	for _, n := range []int{64, 1400, 8900} {
		b.Run(hex.EncodeToString([]byte{byte(n >> 8), byte(n)}), func(b *testing.B) {
			a, _ := testPair(b)
			pkt, buf := testPacket(n, 1), make([]byte, 0, 10000)
			b.SetBytes(int64(n))
			for b.Loop() {
				a.Seal(buf, pkt, nil)
			}
		})
	}
}
