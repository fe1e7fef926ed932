package cmac

import (
	"encoding/hex"
	"testing"
)

// TestVectors: the examples of RFC 4493, section 4.
func TestVectors(t *testing.T) {
	key := [Size]byte(unhex(t, "2b7e151628aed2a6abf7158809cf4f3c"))
	msg := unhex(t, "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"+
		"30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710")
	m := New(key)
	if got := hex.EncodeToString(m.k1[:]); got != "fbeed618357133667c85e08f7236a8de" {
		t.Errorf("K1 is %s", got)
	}
	if got := hex.EncodeToString(m.k2[:]); got != "f7ddac306ae266ccf90bc11ee46d513b" {
		t.Errorf("K2 is %s", got)
	}
	for n, want := range map[int]string{
		0:  "bb1d6929e95937287fa37d129b756746",
		16: "070a16b46b4d4144f79bdd9dd04a287c",
		40: "dfa66747de9ae63030ca32611497c827",
		64: "51f0bebf7e3b9d92fc49741779363cfe",
	} {
		for range 2 { // nothing is left of the message before
			if sum := m.Sum(msg[:n]); hex.EncodeToString(sum[:]) != want {
				t.Errorf("%d bytes: %x, want %s", n, sum, want)
			}
		}
	}
}

// TestNoAllocation: a code costs no garbage.
func TestNoAllocation(t *testing.T) {
	m := New([Size]byte{1})
	msg := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() { m.Sum(msg) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSum(b *testing.B) {
	m := New([Size]byte{1})
	msg := make([]byte, 96)
	for b.Loop() {
		m.Sum(msg)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
