package wire

import (
	"bytes"
	"testing"
)

// TestExtensions: what was appended is read back, in its order, and nothing else.
func TestExtensions(t *testing.T) {
	for _, want := range [][]Extension{
		nil,
		{{Type: 1, Value: []byte{}}},
		{{Type: 1, Value: []byte("a")}, {Type: 1, Value: []byte("b")}, {Type: 0xFFFF, Value: []byte{}}},
		{{Type: 9, Value: bytes.Repeat([]byte{1}, 0xFFFF)}},
	} {
		var b []byte
		for _, e := range want {
			b = AppendExtension(b, e)
		}
		if err := CheckExtensions(b); err != nil {
			t.Errorf("%d extensions: %v", len(want), err)
		}
		for i, e := range want {
			got, rest, err := NextExtension(b)
			if err != nil || got.Type != e.Type || !bytes.Equal(got.Value, e.Value) {
				t.Fatalf("extension %d: %+v, %v", i, got, err)
			}
			if cap(got.Value) != len(got.Value) {
				t.Errorf("extension %d: appending to it would write over the next one", i)
			}
			b = rest
		}
		if len(b) != 0 {
			t.Errorf("%d bytes are left", len(b))
		}
	}
}

// TestBrokenExtensions: every prefix that cuts an extension is refused.
func TestBrokenExtensions(t *testing.T) {
	one := AppendExtension(nil, Extension{Type: 3, Value: []byte("abc")})
	b := AppendExtension(bytes.Clone(one), Extension{Type: 4, Value: []byte("d")})
	for n := range len(b) + 1 {
		whole := n == 0 || n == len(one) || n == len(b)
		if err := CheckExtensions(b[:n]); (err == nil) != whole || !whole && err != ErrExtension {
			t.Errorf("%d bytes of %d: %v", n, len(b), err)
		}
	}
}

// FuzzExtensions: extensions that are accepted are written back to the same bytes.
func FuzzExtensions(f *testing.F) {
	f.Add([]byte{})
	f.Add(AppendExtension(AppendExtension(nil, Extension{Type: 1}),
		Extension{Type: 2, Value: []byte("x")}))
	f.Add([]byte{1, 0, 255, 255, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		var again []byte
		for b := in; len(b) > 0; {
			e, rest, err := NextExtension(b)
			if err != nil {
				if CheckExtensions(in) == nil {
					t.Fatal("accepted")
				}
				return
			}
			again, b = AppendExtension(again, e), rest
		}
		if !bytes.Equal(again, in) || CheckExtensions(in) != nil {
			t.Fatalf("% x was written back as % x", in, again)
		}
	})
}
