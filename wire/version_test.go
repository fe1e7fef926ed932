package wire

import (
	"bytes"
	"testing"
)

// connectOf returns a Connect as another version might send it.
func connectOf(version byte, size int) []byte {
	b := mgmt(OpConnect, NoSession, 0, &testConnect, size)
	b[0] = b[0]&0x0F | version<<4
	return b
}

// TestAsksVersion: of packets of other versions only Connects ask, and never a refusal.
func TestAsksVersion(t *testing.T) {
	for version := range byte(16) {
		got, nonce, ok := AsksVersion(connectOf(version, 0))
		if ok != (version != 0) || ok && (got != version || nonce != testConnect.Nonce) {
			t.Errorf("version %d: %d, nonce %#x, %v", version, got, nonce, ok)
		}
	}
	change := func(at int, to byte) []byte {
		b := connectOf(1, 0)
		b[at] = to
		return b
	}
	for name, pkt := range map[string][]byte{
		"empty": nil, "cut": connectOf(1, 0)[:HeaderSize+ConnectSize-1],
		"of another type":      change(0, 0x13),
		"of another operation": change(1, byte(OpPing)), "for a session": change(8, 7),
		"for session 0xFEFFFF": change(10, 0xFE),
	} {
		if _, _, ok := AsksVersion(pkt); ok {
			t.Errorf("a packet %s asks for a version", name)
		}
	}
	if _, _, ok := AsksVersion(change(11, 0)); !ok {
		t.Error("a Connect for a loop does not ask")
	}
}

// TestVersionRefusal: it is read back, smaller than what it answers, and refused if damaged.
func TestVersionRefusal(t *testing.T) {
	want := VersionRefusal{Nonce: 1<<64 - 2, Asked: 1, Least: 2, Most: 5}
	b := bytes.Repeat([]byte{0xFF}, VersionRefusalSize+1)
	want.Put(b)
	if b[VersionRefusalSize] != 0xFF {
		t.Error("Put wrote behind the packet")
	}
	b = b[:VersionRefusalSize]
	if len(b) > HeaderSize+ConnectSize {
		t.Error("larger than a Connect")
	}
	var got VersionRefusal
	if !got.Parse(b) || got != want {
		t.Errorf("read %+v, wrote %+v", got, want)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 0x10
		if got.Parse(bad) && i != 11 {
			t.Errorf("byte %d is damaged, and it was accepted", i)
		}
	}
	for n := range b {
		if got.Parse(b[:n]) {
			t.Errorf("%d bytes were accepted", n)
		}
	}
	if _, _, ok := AsksVersion(append(b, make([]byte, 100)...)); ok {
		t.Error("a refusal draws a refusal")
	}
}
