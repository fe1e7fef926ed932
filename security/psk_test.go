package security

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestPSKSize: a key of MinPSK bytes is good, in a file in either spelling too; one of a byte
// less is refused with both sizes, and any longer one is good.
func TestPSKSize(t *testing.T) {
	for n, good := range map[int]bool{0: false, 1: false, MinPSK - 1: false, MinPSK: true,
		MinPSK + 1: true, 32: true, 4096: true} {
		key := bytes.Repeat([]byte{0xA5}, n)
		errs, names := []error{CheckPSK([][]byte{make([]byte, MinPSK), key})}, []string{"key"}
		base64 := base64.StdEncoding.EncodeToString(key)
		for _, spelling := range []string{hex.EncodeToString(key), base64} {
			if n == 0 {
				continue // an empty line is none
			}
			keys, err := ParsePSK([]byte("# ours\n" + spelling + "\n"))
			if good && (len(keys) != 1 || !bytes.Equal(keys[0], key)) {
				t.Errorf("%d bytes became % x", n, keys)
			}
			errs, names = append(errs, err), append(names, "line")
		}
		for i, err := range errs {
			said := fmt.Sprintf("%s 2 has %d bytes, must have at least %d", names[i], n, MinPSK)
			switch {
			case good && err != nil, !good && !errors.Is(err, ErrPSK):
				t.Errorf("%d bytes, way %d: %v", n, i, err)
			case !good && !strings.HasSuffix(err.Error(), said):
				t.Errorf("%d bytes, way %d: %v, want %q", n, i, err, said)
			}
		}
	}
}

// TestPSKFile: what is no key is told by its line, and so is a file without any.
func TestPSKFile(t *testing.T) {
	const good = "00112233445566778899aabbccddeeff"
	for _, c := range []struct {
		file, said string
		keys       int
	}{
		{good, "", 1},
		{"\r\n# text\r\n \t" + good + " \r\n\n" + good + "\n", "", 2},
		{"", "has none", 0},
		{"\n# " + good + "\n", "has none", 0},
		{good + "\n\nno key\n", "line 3 is neither", 0},
		{"x", "line 1 is neither", 0},
		{good + " # ours", "line 1 is neither", 0},
		{"#\n#\n" + good[1:], "line 3 is neither", 0}, // 31 characters
		{good + "\n" + good[2:], "line 2 has 15 bytes", 0},
	} {
		keys, err := ParsePSK([]byte(c.file))
		if len(keys) != c.keys || (err == nil) != (c.said == "") {
			t.Errorf("%q: %d keys, %v", c.file, len(keys), err)
		} else if err != nil && (!errors.Is(err, ErrPSK) || !strings.Contains(err.Error(), c.said)) {
			t.Errorf("%q: %v, want %q", c.file, err, c.said)
		}
	}
}

// pskPair returns the sides of a handshake by a shared key. Params are the client's.
func pskPair(params []byte) (client, server *Handshake) {
	judge := func([]byte) ([]byte, error) { return nil, nil }
	keys := [][]byte{bytes.Repeat([]byte{7}, MinPSK)}
	return NewPSK(keys, nil, true, Opening{Params: params, Judge: judge}),
		NewPSK(keys, nil, false, Opening{Judge: judge})
}

// TestPSKLargest: a message of as many bytes as are allowed is taken, and one more is refused as
// soon as its length is there.
func TestPSKLargest(t *testing.T) {
	const rest = randomSize + nameSize + 1 + macSize // of the first message, without parameters
	for more, want := range map[int]error{-1: nil, 0: nil, 1: ErrMessage} {
		client, server := pskPair(make([]byte, maxPSK-rest+more))
		hello, err := client.Step(nil)
		if err != nil || len(hello) != 2+maxPSK+more {
			t.Fatalf("%d bytes, %v", len(hello), err)
		}
		if _, err = server.Step(hello[:2]); err != want {
			t.Errorf("%d more, its length: %v, want %v", more, err, want)
		}
		answer, err := server.Step(hello[2:])
		if err != want || (len(answer) > 0) != (want == nil) {
			t.Errorf("%d more: %v, want %v; an answer of %d bytes", more, err, want, len(answer))
		}
	}
}

// TestPSKPieces: a message counts when its last byte has come, whatever the pieces.
func TestPSKPieces(t *testing.T) {
	for piece := 1; piece < 200; piece++ {
		client, server := pskPair([]byte("params"))
		sides, stream := [2]*Handshake{server, client}, []byte(nil)
		stream, err := client.Step(nil)
		for turn := 0; len(stream) > 0 && err == nil; turn++ {
			var out []byte
			for len(stream) > 0 && err == nil {
				if len(out) > 0 {
					t.Fatalf("pieces of %d: an answer before the end", piece)
				}
				n := min(piece, len(stream))
				out, err = sides[turn&1].Step(stream[:n])
				stream = stream[n:]
			}
			stream = out
		}
		if err != nil || !client.Done() || !server.Done() ||
			*client.Secrets() != *server.Secrets() {
			t.Fatalf("pieces of %d: %v", piece, err)
		}
	}
}

// forge makes a message of a client or a server whose MAC is right, and whose body is any.
func forge(p *pskHandshake, label string, body []byte) []byte {
	h := &Handshake{}
	q := *p
	q.log = bytes.Clone(p.log)
	q.say(h, label, body)
	return h.out
}

// TestPSKMin: the least body that a message may have is taken as far as its fields go, and one of
// a byte less is malformed, though its MAC is right.
func TestPSKMin(t *testing.T) {
	client, server := pskPair(nil)
	hello, err := client.Step(nil)
	if err != nil {
		t.Fatal(err)
	}
	body := hello[2:][:randomSize+nameSize] // without a cipher

	fresh := *client.psk
	fresh.log = nil
	for n, want := range map[int]error{0: ErrMessage, randomSize + nameSize - 1: ErrMessage,
		randomSize + nameSize: ErrParams} {
		_, s := pskPair(nil)
		if _, err := s.Step(forge(&fresh, "client hello", body[:n])); err != want {
			t.Errorf("a first message with %d bytes: %v, want %v", n, err, want)
		}
	}

	if _, err := server.Step(hello); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]error{0: ErrMessage, randomSize - 1: ErrMessage,
		randomSize: ErrParams} {
		h := *client
		p := *client.psk
		h.psk = &p
		if _, err := h.Step(forge(&p, "server hello", make([]byte, n))); err != want {
			t.Errorf("an answer with %d bytes: %v, want %v", n, err, want)
		}
	}
	for n, want := range map[int]error{macSize - 1: ErrMessage, macSize: ErrKey} {
		h := *server
		p := *server.psk
		h.psk = &p
		msg := append(binary.LittleEndian.AppendUint16(nil, uint16(n)), make([]byte, n)...)
		if _, err := h.Step(msg); err != want {
			t.Errorf("a last message of %d bytes: %v, want %v", n, err, want)
		}
	}
}
