package chacha

import (
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
