package ud

import (
	"encoding/hex"
	"testing"

	"github.com/userspace-rpc/erpc/internal/verbs"
)

var golden = card{kind: cardQuery, layer: byte(verbs.Ethernet), gidKind: kindRoCE2v4, lid: 0x0102,
	port: 31850,
	gid:  verbs.GID{10: 0xFF, 11: 0xFF, 12: 10, 13: 9, 14: 0, 15: 1}, qpn: 0x030405, qkey: 0x11223344,
	mtu: 4096, query: 0x0807060504030201}

// TestCardBytes holds the card to the layout in doc.go.
func TestCardBytes(t *testing.T) {
	var b [cardSize]byte
	golden.encode(&b)
	const want = "657270632d756431" + "01020200" + "0201" + "6a7c" +
		"00000000000000000000ffff0a090001" +
		"05040300" + "44332211" + "00100000" + "00000000" + "0102030405060708"
	if got := hex.EncodeToString(b[:]); got != want {
		t.Errorf("encoded\n%s, want\n%s", got, want)
	}
	if c, ok := parseCard(b[:]); !ok || c != golden {
		t.Errorf("comes back as %+v, %v", c, ok)
	}
}

func TestBadCards(t *testing.T) {
	for name, spoil := range map[string]func(b []byte) []byte{
		"short":       func(b []byte) []byte { return b[:cardSize-1] },
		"long":        func(b []byte) []byte { return append(b, 0) },
		"empty":       func(b []byte) []byte { return nil },
		"version":     func(b []byte) []byte { b[7] = '2'; return b },
		"kind 0":      func(b []byte) []byte { b[8] = 0; return b },
		"kind 5":      func(b []byte) []byte { b[8] = 5; return b },
		"port 0":      func(b []byte) []byte { b[14], b[15] = 0, 0; return b },
		"QPN 0":       func(b []byte) []byte { clear(b[32:36]); return b },
		"QPN 2^24":    func(b []byte) []byte { b[35] = 1; return b },
		"MTU 0":       func(b []byte) []byte { clear(b[40:44]); return b },
		"MTU 4097":    func(b []byte) []byte { b[40] = 1; return b },
		"not zero":    func(b []byte) []byte { b[47] = 1; return b },
		"huge MTU":    func(b []byte) []byte { b[43] = 0xFF; return b },
		"other magic": func(b []byte) []byte { b[0] = 'E'; return b },
	} {
		var b [cardSize]byte
		golden.encode(&b)
		if c, ok := parseCard(spoil(b[:])); ok {
			t.Errorf("%s: taken as %+v", name, c)
		}
	}
}

// FuzzCard: what is a card comes back as it was.
func FuzzCard(f *testing.F) {
	var b [cardSize]byte
	golden.encode(&b)
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, in []byte) {
		c, ok := parseCard(in)
		if !ok {
			return
		}
		var out [cardSize]byte
		c.encode(&out)
		if again, ok := parseCard(out[:]); !ok || again != c {
			t.Errorf("%+v comes back as %+v, %v", c, again, ok)
		}
	})
}
