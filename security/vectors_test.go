package security

import (
	"bytes"
	"crypto/tls"
	"encoding/hex"
	"testing"
)

// count returns n bytes that count up.
func count(from byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = from + byte(i)
	}
	return b
}

// answer compares bytes with those of the other implementation; see TestKnownAnswers.
func answer(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	if hex.EncodeToString(got) != want {
		t.Errorf("%s: %x, want %s", what, got, want)
	}
}

// pskAnswers makes a handshake by a shared key, random numbers that count up, and its secrets.
func pskAnswers(t *testing.T) (hello, answer, finished []byte, s *Secrets) {
	t.Helper()
	keys := [][]byte{count(100, 32)}
	judge := func([]byte) ([]byte, error) { return []byte("answer"), nil }
	client := NewPSK(keys, bytes.NewReader(count(0, 32)), true,
		Opening{Params: []byte("params"), Judge: judge, Ciphers: 1 << AES128GCM})
	server := NewPSK(keys, bytes.NewReader(count(32, 32)), false,
		Opening{Judge: judge, Ciphers: 1 << AES128GCM})
	hello, err := client.Step(nil)
	if err == nil {
		answer, err = server.Step(hello)
	}
	if err == nil {
		finished, err = client.Step(answer)
	}
	if err == nil {
		_, err = server.Step(finished)
	}
	if err != nil || !client.Done() || *client.Secrets() != *server.Secrets() {
		t.Fatal(err)
	}
	return hello, answer, finished, server.Secrets()
}

// TestPSKAnswers: each message of a handshake by a shared key, and what follows from it.
func TestPSKAnswers(t *testing.T) {
	hello, reply, finished, s := pskAnswers(t)
	answer(t, "the client's message", hello, kaHello)
	answer(t, "the server's", reply, kaAnswer)
	answer(t, "the last", finished, kaFinished)
	answer(t, "the client's secret", s.Client[:], kaPSKClient)
	answer(t, "the server's secret", s.Server[:], kaPSKServer)
	if s.AEAD != AES128GCM {
		t.Error(s.AEAD)
	}
}

// TestPhaseAnswers: packets of the first three key phases.
func TestPhaseAnswers(t *testing.T) {
	_, _, _, s := pskAnswers(t)
	a, _ := NewAssociation(s, true)
	b, _ := NewAssociation(s, false)
	a.Address(toServer)
	for phase, want := range []string{kaPhase0, kaPhase1, kaPhase2} {
		out, _ := a.Seal(nil, testPacket(24, byte(phase)), nil)
		answer(t, "a packet", out, want)
		if _, err := b.Open(out); err != nil {
			t.Fatal(err)
		}
		b.counter = uint64(2 * phase)
		carry(t, b, a)
		a.Update()
	}
}

// TestFrameAnswers: encrypted frames of handshake messages are numbered from 0 on.
func TestFrameAnswers(t *testing.T) {
	var k frameKey
	k.set(bytes.Repeat([]byte{9}, 32))
	var out []byte
	for _, msg := range []string{"one", "two", "three"} {
		out = k.appendFrame(out, tls.QUICEncryptionLevelHandshake, []byte(msg))
	}
	answer(t, "frames", out, kaFrames)
}

// TestFrameKeysWhenNeeded: the keys of handshake messages follow from TLS's secret at the first
// message of their level and direction.
func TestFrameKeysWhenNeeded(t *testing.T) {
	secret := bytes.Repeat([]byte{9}, 32)
	var k frameKey
	if k.cipher() != nil {
		t.Error("a cipher without a secret")
	}
	k.set(secret)
	clear(secret) // TLS writes over it
	if k.aead != nil {
		t.Error("a cipher before the first message")
	}
	answer(t, "frames", k.appendFrame(nil, tls.QUICEncryptionLevelHandshake, []byte("one")),
		kaFrames[:2*(frameHead+3+tagSize)])
	if k.aead == nil || k.secret != nil {
		t.Error("no cipher after the first message, or the secret is kept")
	}
}
