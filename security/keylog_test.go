package security

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// logged returns the lines of an association.
func logged(t *testing.T, s *Secrets, nonce uint64) []Logged {
	t.Helper()
	list, err := ParseKeyLog(s.AppendKeyLog(nil, nonce, toClient, toServer))
	if err != nil || len(list) != 2 || !list[0].Client || list[1].Client || list[0].Nonce != nonce ||
		list[0].Index != toServer || list[1].Index != toClient {
		t.Fatal(list, err)
	}
	return list
}

// TestOpener: the holder of the log opens packets of any phase, in any order and as often as they
// come, also if it saw nothing of the beginning; and no other packets.
func TestOpener(t *testing.T) {
	for phases := range 5 {
		s := &Secrets{AEAD: AES128GCM, Client: Secret{1}, Server: Secret{2}}
		a, _ := NewAssociation(s, true)
		b, _ := NewAssociation(s, false)
		a.Address(toServer)
		b.Address(toClient)
		list := logged(t, s, 7)
		var pkts, plain [][]byte
		exchange := func(from, to *Association) {
			text := bytes.Repeat([]byte{byte(len(pkts)), 0xFF}, 20)
			pkt, ok := from.Seal(nil, text, nil)
			if !ok {
				t.Fatal("spent")
			}
			if from == a {
				pkts, plain = append(pkts, bytes.Clone(pkt)), append(plain, text)
			}
			if _, err := to.Open(pkt); err != nil {
				t.Fatal(err)
			}
		}
		for p := range phases + 1 {
			for range 5 {
				exchange(a, b)
				exchange(b, a)
			}
			if p < phases && !a.Update() {
				t.Fatal("no update")
			}
		}
		for _, from := range []int{0, len(pkts) - 1} {
			o, err := NewOpener(&list[0])
			if err != nil {
				t.Fatal(err)
			}
			wrong, _ := NewOpener(&Logged{AEAD: list[1].AEAD, Index: toServer, Secret: list[1].Secret})
			elsewhere, _ := NewOpener(&Logged{AEAD: list[0].AEAD, Index: toClient, Secret: list[0].Secret})
			for i := from; i < len(pkts); i++ {
				for _, j := range []int{i, max(i-1, from)} {
					got, at, ok := o.Open([]byte("x"), pkts[j])
					if !ok || !bytes.Equal(got[1:], plain[j]) || at.Counter != uint64(j) || at.Phase != j/5 {
						t.Errorf("packet %d of phase %d: %x, %+v, %v", j, j/5, got, at, ok)
					}
				}
				bad := bytes.Clone(pkts[i])
				bad[len(bad)-1] ^= 1
				if _, _, ok := o.Open(nil, bad); ok {
					t.Error("a damaged packet")
				}
				if _, _, ok := wrong.Open(nil, pkts[i]); ok {
					t.Error("the other side's secret")
				}
				if _, _, ok := elsewhere.Open(nil, pkts[i]); ok {
					t.Error("another index")
				}
			}
		}
	}
	o, _ := NewOpener(&Logged{AEAD: AES128GCM})
	if _, _, ok := o.Open(nil, make([]byte, minSealed+Overhead-1)); ok || o.Found() {
		t.Error("a short packet")
	}
}

// TestOpenerLate: a capture that begins after 2^32 packets.
func TestOpenerLate(t *testing.T) {
	s := &Secrets{AEAD: AES128GCM}
	a, _ := NewAssociation(s, true)
	for range 40 {
		a.advance()
	}
	a.counter = 2<<32 + 5
	a.Address(toServer)
	pkt, _ := a.Seal(nil, make([]byte, 64), nil)
	o, _ := NewOpener(&logged(t, s, 1)[0])
	if _, at, ok := o.Open(nil, pkt); !ok || at.Counter != 2<<32+5 || at.Phase != 40 {
		t.Errorf("%+v, %v", at, ok)
	}
}

// TestOpenerPhases: before its first packet an Opener tries MaxPhases phases, and no more; then
// each packet may be of another phase.
func TestOpenerPhases(t *testing.T) {
	s := &Secrets{AEAD: AES128GCM}
	for phases := MaxPhases - 2; phases < MaxPhases+2; phases++ {
		a, _ := NewAssociation(s, true)
		a.Address(toServer)
		for range phases {
			a.advance()
		}
		o, _ := NewOpener(&logged(t, s, 1)[0])
		for i := range 6 {
			pkt, _ := a.Seal(nil, make([]byte, 64), nil)
			_, at, ok := o.Open(nil, pkt)
			if ok != (phases < MaxPhases) || ok && at != (Opened{uint64(i), phases + i}) {
				t.Errorf("packet %d of phase %d: %+v, %v", i, phases+i, at, ok)
			}
			a.advance()
		}
	}
}

// TestKeyLog: lines of TLS are skipped, those that come twice count once, damaged ones are named.
func TestKeyLog(t *testing.T) {
	secret := strings.Repeat("ab", 32)
	good := "ERPC_SERVER_SECRET_2 00000000000000ff 0501000a " + secret + "\n"
	list, err := ParseKeyLog([]byte("# text\nCLIENT_RANDOM 12 34\n\n" + good + good))
	if err != nil || len(list) != 1 || list[0].Nonce != 255 || list[0].AEAD != ChaCha20Poly1305 ||
		list[0].Index != 0x0501000a {
		t.Error(list, err)
	}
	for _, bad := range []string{
		"ERPC_CLIENT_SECRET_", "ERPC_CLIENT_SECRET_0 00000000000000ff 0501000a " + secret,
		"ERPC_CLIENT_SECRET_1 ff 0501000a " + secret,
		"ERPC_CLIENT_SECRET_1 00000000000000fg 0501000a " + secret,
		"ERPC_CLIENT_SECRET_1 00000000000000ff " + secret, // of version 2
		"ERPC_CLIENT_SECRET_1 00000000000000ff 501000a " + secret,
		"ERPC_CLIENT_SECRET_1 00000000000000ff 0501000g " + secret,
		"ERPC_CLIENT_SECRET_1 00000000000000ff 8501000a " + secret, // with a key phase
		"ERPC_CLIENT_SECRET_1 00000000000000ff 0501000a " + secret[1:],
		"ERPC_CLIENT_SECRET_1 00000000000000ff 0501000a " + secret[1:] + "x",
		// the first number without a cipher, and one that in a byte would be 0
		"ERPC_CLIENT_SECRET_3 00000000000000ff 0501000a " + secret,
		"ERPC_CLIENT_SECRET_256 00000000000000ff 0501000a " + secret,
		"ERPC_CLIENT_SECRET_257 00000000000000ff 0501000a " + secret,
		strings.TrimSpace(good) + " more"} {
		list, err := ParseKeyLog([]byte(good + bad))
		if !errors.Is(err, ErrKeyLog) || list != nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v, %v", bad, list, err)
		}
	}
}

// FuzzKeyLog: a key log is read or refused by the number of a line that is there; what was read is
// written as it was, and opens what it should.
func FuzzKeyLog(f *testing.F) {
	s := &Secrets{AEAD: AES128GCM, Client: Secret{1}, Server: Secret{2}}
	f.Add(s.AppendKeyLog([]byte("CLIENT_RANDOM 12 34\n"), 9, toClient, toServer))
	f.Add([]byte("ERPC_SERVER_SECRET_2 00000000000000ff 0501000a " + strings.Repeat("ab", 32)))
	f.Add([]byte("ERPC_CLIENT_SECRET_300 1 2\n\nERPC_CLIENT_SECRET_"))
	f.Fuzz(func(t *testing.T, log []byte) {
		list, err := ParseKeyLog(log)
		if err != nil {
			var line int
			_, found := fmt.Sscanf(err.Error(), ErrKeyLog.Error()+": line %d", &line)
			if found != nil || !errors.Is(err, ErrKeyLog) || list != nil ||
				line < 1 || line > bytes.Count(log, []byte("\n"))+1 {
				t.Fatalf("%d lines and %v", len(list), err)
			}
			return
		}
		for _, l := range list {
			side := &Secrets{AEAD: l.AEAD, Client: l.Secret, Server: l.Secret}
			again, err := ParseKeyLog(side.AppendKeyLog(nil, l.Nonce, l.Index, l.Index))
			if err != nil || len(again) != 2 || again[0] != l && again[1] != l {
				t.Fatalf("%+v became %+v, %v", l, again, err)
			}
			if _, err := NewOpener(&l); err != nil && !errors.Is(err, ErrNoCipher) {
				t.Fatal(err)
			}
		}
	})
}

// FuzzOpener: an Opener opens what was sealed, byte for byte and in whatever order it comes, and
// nothing else, whatever came before. The input is a byte for the phases, and what comes, in pieces
// whose size is their first byte; a piece of size 0 is a good packet.
func FuzzOpener(f *testing.F) {
	s := &Secrets{AEAD: AES128GCM, Client: Secret{1}, Server: Secret{2}}
	f.Add([]byte{0, 0, 0, 0}, uint64(0))
	f.Add(append([]byte{3, 0, 40}, make([]byte, 40)...), uint64(1<<32-2))
	f.Add([]byte{7, 5, 1, 2, 3, 4, 5, 0, 0}, uint64(7))
	f.Fuzz(func(t *testing.T, data []byte, counter uint64) {
		if len(data) == 0 {
			return
		}
		a, _ := NewAssociation(s, true)
		o, _ := NewOpener(&Logged{AEAD: s.AEAD, Secret: s.Client})
		phases := int(data[0]) % 8
		for range phases {
			a.advance()
		}
		a.counter = counter % maxCounter
		text := bytes.Repeat([]byte{3}, minSealed+Overhead)
		for data = data[1:]; len(data) > 0; {
			n := int(data[0])
			if data = data[1:]; n > 0 {
				piece := data[:min(n, len(data))]
				data = data[len(piece):]
				if got, _, ok := o.Open([]byte("x"), piece); ok || string(got) != "x" {
					t.Fatalf("%x was opened: %x", piece, got)
				}
				continue
			}
			want := a.counter
			pkt, sealed := a.Seal(nil, text, nil)
			got, at, ok := o.Open([]byte("x"), pkt)
			if !sealed || !ok || !bytes.Equal(got[1:], text) || at.Counter != want ||
				at.Phase != phases || !o.Found() {
				t.Fatalf("packet %d of phase %d: %x, %+v, %v", want, phases, got, at, ok)
			}
		}
	})
}
