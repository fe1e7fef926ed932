package msgbuf

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/userspace-rpc/erpc/internal/invariants"
)

func newPool(t *testing.T, cfg Config) *Pool {
	t.Helper()
	p, err := NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func alloc(t *testing.T, p *Pool, n int) *Buffer {
	t.Helper()
	b, err := p.Alloc(n)
	if err != nil {
		t.Fatalf("Alloc(%d): %v", n, err)
	}
	return b
}

// closePool closes p and fails the test if buffers or memory are left.
func closePool(t *testing.T, p *Pool) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if st := p.Stats(); st.ReservedBytes != 0 || st.Regions != 0 || st.InUse != 0 ||
		st.HugeBytes != 0 {
		t.Errorf("after Close: %+v", st)
	}
}

// mistake runs f, a misuse, and checks that it panics with a message of this
// package in invariant builds and is harmless in others.
func mistake(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		text, _ := recover().(string)
		if strings.HasPrefix(text, "msgbuf: ") != invariants.Enabled {
			t.Errorf("%s: panic %q, invariants %v", what, text, invariants.Enabled)
		}
	}()
	f()
}

// panics says whether f panics.
func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// at returns the offset of s within the chunk of b.
func at(b *Buffer, s []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(s))) - uintptr(unsafe.Pointer(&b.mem[0])))
}

// skipIfRenewed skips tests of what only ordinary builds do.
func skipIfRenewed(t *testing.T) {
	if invariants.Enabled {
		t.Skip("invariant builds make a new Buffer in each Alloc")
	}
}
