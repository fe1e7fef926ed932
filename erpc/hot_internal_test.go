package erpc

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
)

// TestHotSession: what a packet needs of a session is in one piece: the end of a Conn, which begins
// with a line of the cache, what follows it in a Session, and its half. Both ends are no larger
// than the class of 1,792 bytes of Go's allocator.
func TestHotSession(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes are those of 64-bit systems")
	}
	live, _ := reflect.TypeFor[engine.Conn]().FieldByName("live")
	hot := unsafe.Offsetof(Session{}.conn) + live.Offset
	if hot%64 != 0 {
		t.Errorf("the hot part begins at byte %d", hot)
	}
	if got := unsafe.Sizeof(Session{}) - hot; got != engine.HotConn {
		t.Errorf("the hot part has %d bytes, want %d", got, engine.HotConn)
	}
	if unsafe.Offsetof(clientEnd{}.half) != unsafe.Sizeof(Session{}) ||
		unsafe.Offsetof(serverEnd{}.half) != unsafe.Sizeof(Session{}) {
		t.Error("there is a gap between a Session and its half")
	}
	if unsafe.Sizeof(clientEnd{}) > 1792 || unsafe.Sizeof(serverEnd{}) > 1792 {
		t.Error("an end is larger than its class of memory was")
	}
	t.Logf("an end takes %d bytes at a client, %d at a server", unsafe.Sizeof(clientEnd{}),
		unsafe.Sizeof(serverEnd{}))
}
