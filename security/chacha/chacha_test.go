package chacha

import (
	"encoding/hex"
	"testing"

	"github.com/userspace-rpc/erpc/security"
)

// TestChosen: the cipher is there, works, and is chosen where a processor does not compute AES.
func TestChosen(t *testing.T) {
	slow := security.Own() &^ 1
	a, err := security.Choose(security.Own(), slow)
	if err != nil || a != security.ChaCha20Poly1305 {
		t.Fatal(a, err)
	}
	from, err := security.NewAssociation(&security.Secrets{AEAD: a}, true)
	if err != nil {
		t.Fatal(err)
	}
	to, _ := security.NewAssociation(&security.Secrets{AEAD: a}, false)
	out, _ := from.Seal(nil, make([]byte, 50), nil)
	if got, err := to.Open(out); err != nil || len(got) != 50 {
		t.Error(len(got), err)
	}
}

// TestKnownAnswer: the second packet, in the second phase, is that of another implementation
// (Python's hmac and cryptography).
func TestKnownAnswer(t *testing.T) {
	var s security.Secrets
	s.AEAD = security.ChaCha20Poly1305
	for i := range s.Client {
		s.Client[i] = byte(i)
	}
	a, err := security.NewAssociation(&s, true)
	if err != nil {
		t.Fatal(err)
	}
	a.Address(0x01_02_0003)
	pkt := make([]byte, 24)
	for i := range pkt {
		pkt[i] = byte(9 + 3*i)
	}
	_, _ = a.Seal(nil, pkt, nil)
	if !a.Update() {
		t.Fatal("no update")
	}
	out, _ := a.Seal(nil, pkt, nil)
	const want = "3b0100000000000003000281f42946f3a5fe818edbccf2cb1ff2b3b6f2e9d60806ee491515c33734" +
		"321cbb0b129eb6d035d6b73a"
	if got := hex.EncodeToString(out); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
