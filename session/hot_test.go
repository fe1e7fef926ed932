package session

import (
	"testing"
	"unsafe"
)

// TestHot: Prefetch fetches the bytes that small RPCs need, with the first slot.
func TestHot(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes are those of 64-bit systems")
	}
	if got := unsafe.Offsetof(Client{}.inline) + unsafe.Sizeof(clientSlot{}); got > ClientHot ||
		got+64 < ClientHot {
		t.Errorf("ClientHot is %d, want %d", ClientHot, got)
	}
	if got := unsafe.Offsetof(Server{}.inline) + unsafe.Sizeof(serverSlot{}); got > ServerHot ||
		got+64 < ServerHot {
		t.Errorf("ServerHot is %d, want %d", ServerHot, got)
	}
	t.Logf("client %d bytes, slot %d; server %d, slot %d", unsafe.Sizeof(Client{}),
		unsafe.Sizeof(clientSlot{}), unsafe.Sizeof(Server{}), unsafe.Sizeof(serverSlot{}))
}
