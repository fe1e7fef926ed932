package erpc

import (
	"testing"
	"unsafe"
)

// TestHotSession: the end of a Session is next to its half and begins with a line of the cache.
// Both ends are no larger than the class of 1,792 bytes of Go's allocator.
func TestHotSession(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes are those of 64-bit systems")
	}
	if got := unsafe.Sizeof(Session{}) - unsafe.Offsetof(Session{}.live); got != hotSession {
		t.Errorf("hotSession is %d, want %d", hotSession, got)
	}
	if unsafe.Offsetof(clientEnd{}.half) != unsafe.Sizeof(Session{}) ||
		unsafe.Offsetof(serverEnd{}.half) != unsafe.Sizeof(Session{}) {
		t.Error("there is a gap between a Session and its half")
	}
	if at := unsafe.Offsetof(Session{}.live); at%64 != 0 {
		t.Errorf("the hot part begins at byte %d", at)
	}
	if unsafe.Sizeof(clientEnd{}) > 1792 || unsafe.Sizeof(serverEnd{}) > 1792 {
		t.Error("an end is larger than its class of memory was")
	}
	t.Logf("an end takes %d bytes at a client, %d at a server", unsafe.Sizeof(clientEnd{}),
		unsafe.Sizeof(serverEnd{}))
}
