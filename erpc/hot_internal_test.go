package erpc

import (
	"testing"
	"unsafe"
)

// TestHotSession: the end of a Session is next to its half.
func TestHotSession(t *testing.T) {
	if got := unsafe.Sizeof(Session{}) - unsafe.Offsetof(Session{}.live); got != hotSession {
		t.Errorf("hotSession is %d, want %d", hotSession, got)
	}
	if unsafe.Offsetof(clientEnd{}.half) != unsafe.Sizeof(Session{}) ||
		unsafe.Offsetof(serverEnd{}.half) != unsafe.Sizeof(Session{}) {
		t.Error("there is a gap between a Session and its half")
	}
	t.Logf("an end takes %d bytes at a client, %d at a server", unsafe.Sizeof(clientEnd{}),
		unsafe.Sizeof(serverEnd{}))
}
