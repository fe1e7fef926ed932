package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestMgmtRoundTrip fills each body with random bytes, reads it, writes it to a used
// buffer, reads it again: both readings must be the same value.
func TestMgmtRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for op := Op(1); op < numOps; op++ {
		for range 1000 {
			in := make([]byte, bodySize[op])
			for i := range in {
				in[i] = byte(r.Uint32())
			}
			first, second := newBody(op), newBody(op)
			first.Parse(in)
			out := bytes.Repeat([]byte{0xFF}, bodySize[op]+4)
			first.Put(out)
			second.Parse(out)
			if !sameBody(first, second) {
				t.Fatalf("%v: wrote %+v, read %+v", op, first, second)
			}
			if !bytes.Equal(out[bodySize[op]:], []byte{0xFF, 0xFF, 0xFF, 0xFF}) {
				t.Fatalf("%v: Put wrote behind the body", op)
			}
		}
	}
}

func sameBody(a, b body) bool {
	switch a := a.(type) {
	case *Connect:
		return *a == *b.(*Connect)
	case *Crypto:
		return *a == *b.(*Crypto)
	case *Challenge:
		return *a == *b.(*Challenge)
	case *Accept:
		return *a == *b.(*Accept)
	case *Refuse:
		return *a == *b.(*Refuse)
	case *Alive:
		return *a == *b.(*Alive)
	case *NoKeys:
		return *a == *b.(*NoKeys)
	}
	return false
}

// TestBodyLimits: all fields at their largest value survive.
func TestBodyLimits(t *testing.T) {
	offer := Offer{
		Credits: 1<<16 - 1, Slots: 1<<16 - 1, MTU: 1<<32 - 1, MaxMessage: 1<<32 - 1,
		Waiting: 1<<16 - 1, Features: 1<<32 - 1,
	}
	var cookie [CookieSize]byte
	for i := range cookie {
		cookie[i] = 0xFF
	}
	const u32, u64 = 1<<32 - 1, 1<<64 - 1
	tests := []struct {
		op   Op
		body body
	}{
		{OpConnect, &Connect{Nonce: u64, Epoch: u64, Session: u32, Token: u32, Offer: offer,
			Cookie: cookie}},
		{OpChallenge, &Challenge{Nonce: u64, Cookie: cookie}},
		{OpAccept, &Accept{Nonce: u64, Epoch: u64, Session: u32, Token: u32, Offer: offer}},
		{OpRefuse, &Refuse{Nonce: u64, Code: 255}},
		{OpPing, &Alive{Session: u32, Token: u32, Seq: u64}},
	}
	for _, tt := range tests {
		b := make([]byte, bodySize[tt.op])
		tt.body.Put(b)
		got := newBody(tt.op)
		got.Parse(b)
		if !sameBody(tt.body, got) {
			t.Errorf("%v: wrote %+v, read %+v", tt.op, tt.body, got)
		}
	}
}
