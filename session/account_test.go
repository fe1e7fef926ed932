package session

import "testing"

// TestLeanComesBack: an account keeps of its bank what its peer must lean, and gives the rest back
// with the next packet or the next end of a request, though that may change nothing else.
func TestLeanComesBack(t *testing.T) {
	bank := new(testBank)
	a := NewAccount(bank)
	want := func(what string, leant int64) {
		t.Helper()
		if a.leant != leant || bank.leant != leant {
			t.Errorf("%s: it leans by %d, the bank says %d, want %d",
				what, a.leant, bank.leant, leant)
		}
	}
	ahead := func(n int64) {
		t.Helper()
		if !a.getAhead(n) {
			t.Errorf("%d bytes ahead are refused", n)
		}
	}
	ahead(300)
	want("300 bytes ahead", 300)
	a.fallBack(100)
	want("200 bytes ahead", 200)
	a.complete(30) // 60 bytes may be ahead without leaning
	want("a request is complete", 200)
	ahead(0)
	want("200 bytes ahead after 30", 140)
	ahead(-150)
	want("50 bytes ahead after 30", 0)
	ahead(20)
	want("70 bytes ahead after 30", 10)
}
