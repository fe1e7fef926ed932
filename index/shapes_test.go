package index_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/snapshot"
)

// shape is a family of keys. Which lengths they have, how much they have in common and how dense
// they are decides which layers and nodes they fill.
type shape struct {
	prefix int    // bytes that all have in common
	width  int    // bytes of the number in the middle, 1 to 8
	tails  int    // a key ends with 0 to tails bytes more
	fill   byte   // of prefix and tails
	stride uint64 // between the numbers of neighbours
}

const shapeSize = 5

// parseShape makes every other family one of whole slices: leaves of these have ways of their own.
func parseShape(b []byte) shape {
	s := shape{prefix: int(b[0]) % 200, width: 1 + int(b[1]%8), tails: int(b[2]) % 40, fill: b[3],
		stride: 1 << (b[4] % 56)}
	if b[1] >= 128 {
		s.prefix, s.width, s.tails = s.prefix/64*8, 8, 0
	}
	return s
}

func (s shape) key(i int) string {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], uint64(i)*s.stride)
	key := append(bytes.Repeat([]byte{s.fill}, s.prefix), number[8-s.width:]...)
	return string(append(key, bytes.Repeat([]byte{s.fill}, i%(s.tails+1))...))
}

// pair is a Map and a Bytes with the same keys, and what they are to hold.
type pair struct {
	m    *index.Map
	b    *index.Bytes
	want oracle
	next uint64 // the last value that was stored
}

// text returns the value of a key in the Bytes whose value in the Map is value.
func text(value uint64) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint64(nil, value), int(value%3))
}

// change plays one operation on both.
func (p *pair) change(what byte, key string) error {
	p.next++
	had, there := p.want[key]
	o := op{what, key, p.next, 0}
	if err := o.run(p.m, p.want); err != nil {
		return fmt.Errorf("%v: %w", o, err)
	}
	var old []byte
	var found bool
	var err error
	switch what {
	case 'p':
		old, found, err = p.b.Put([]byte(key), text(p.next))
	case 'a':
		old, found, err = p.b.PutIfAbsent([]byte(key), text(p.next))
	case 'd':
		old, found = p.b.Delete([]byte(key))
	}
	if err != nil || found != there || found && !bytes.Equal(old, text(had)) {
		return fmt.Errorf("%v of Bytes: %x %v %v, want %x %v", o, old, found, err, text(had), there)
	}
	return nil
}

// batch looks keys up that may be there, together and one by one.
func (p *pair) batch(keys [][]byte) error {
	values, ok := make([]uint64, len(keys)), make([]bool, len(keys))
	texts, okay := make([][]byte, len(keys)), make([]bool, len(keys))
	p.m.GetBatch(keys, values, ok)
	p.b.GetBatch(keys, texts, okay)
	for i, k := range keys {
		v, had := p.want[string(k)]
		if got, found := p.m.Get(k); got != v || found != had {
			return fmt.Errorf("key %q: %d %v, want %d %v", k, got, found, v, had)
		}
		if got, found := p.b.Get(k); found != had || had && !bytes.Equal(got, text(v)) {
			return fmt.Errorf("key %q of Bytes: %x %v, want %x %v", k, got, found, text(v), had)
		}
		if values[i] != v || ok[i] != had || okay[i] != had || had && !bytes.Equal(texts[i], text(v)) {
			return fmt.Errorf("batch of %d, key %q: %d %v, %x %v, want %d %v", len(keys), k,
				values[i], ok[i], texts[i], okay[i], v, had)
		}
	}
	return nil
}

// restore puts what a snapshot of the Map holds in its place.
func (p *pair) restore() error {
	var file bytes.Buffer
	if n, err := snapshot.Write(&file, p.m, time.Unix(1, 0)); err != nil || int(n) != len(p.want) {
		return fmt.Errorf("a snapshot of %d keys, want %d: %w", n, len(p.want), err)
	}
	m, _, err := snapshot.Read(&file)
	p.m = m
	return err
}

// check compares all keys, up and down, and looks at the nodes.
func (p *pair) check() error {
	_, err := p.m.Check()
	_, more := p.b.Check()
	if err = errors.Join(err, more); err != nil {
		return err
	}
	order := p.want.from("")
	var up, down []string
	for k, v := range p.b.Ascend(nil) {
		if !bytes.Equal(v, text(p.want[string(k)])) {
			return fmt.Errorf("key %q of Bytes has %x", k, v)
		}
		up = append(up, string(k))
	}
	for k := range p.b.Descend(nil) {
		down = append(down, string(k))
	}
	slices.Reverse(down)
	if !slices.Equal(up, order) || !slices.Equal(down, order) {
		return fmt.Errorf("%d keys up and %d down, want %d", len(up), len(down), len(order))
	}
	for _, what := range []byte("sfuw") {
		if err := (op{what: what, n: len(order) + 1}).run(p.m, p.want); err != nil {
			return fmt.Errorf("%c of all: %w", what, err)
		}
	}
	return nil
}

// Commands of a script, and how many bytes each has.
const (
	commands    = "PPQRaDDMKsSuwfbr"
	commandSize = 4
	mostScript  = 40
)

// command plays one command of a script for keys of the shape s. b has the number of its first key
// in 16 bits and how many keys it is for.
func (p *pair) command(s shape, what byte, b []byte) error {
	from, n := int(binary.LittleEndian.Uint16(b))%4096, 4*int(b[2])
	switch what {
	case 's', 'S', 'u', 'w', 'f':
		key := s.key(from)
		switch b[2] % 4 { // between the keys that there are
		case 1:
			key += "\x00"
		case 2:
			key = key[:len(key)-1]
		}
		return op{what, key, 0, n}.run(p.m, p.want)
	case 'b':
		var keys [][]byte
		for i := range n {
			keys = append(keys, []byte(s.key(from+i)))
		}
		return p.batch(keys)
	case 'r':
		return p.restore()
	}
	for i := range n {
		at, act := from+i, byte('p')
		switch what {
		case 'Q': // in falling order
			at = from + n - 1 - i
		case 'R': // in no order
			at = from + i*101%n
		case 'a', 'd':
			act = what
		case 'D':
			act = 'd'
		case 'K': // from the end
			at, act = from+n-1-i, 'd'
		case 'M': // nearly all, so that what is left joins
			if act = 'd'; i%37 == 0 {
				continue
			}
		}
		if err := p.change(act, s.key(at)); err != nil {
			return err
		}
	}
	return nil
}

// playShapes plays a script: shapes of keys, and commands for keys of one of them.
func playShapes(script []byte) error {
	if len(script) < 2*shapeSize {
		return nil
	}
	shapes := []shape{parseShape(script), parseShape(script[shapeSize:])}
	script = script[2*shapeSize:]
	p := &pair{m: index.NewMap(), b: index.NewBytes(), want: oracle{}}
	for i := 0; len(script) >= commandSize && i < mostScript; i++ {
		s, what := shapes[script[0]>>7], commands[int(script[0])%len(commands)]
		if err := p.command(s, what, script[1:commandSize]); err != nil {
			return fmt.Errorf("command %d, %c for %+v: %w", i, what, s, err)
		}
		script = script[commandSize:]
	}
	if err := p.check(); err != nil {
		return err
	}
	for key := range p.want {
		if err := p.change('d', key); err != nil {
			return err
		}
	}
	if s, err := p.m.Check(); err != nil || s.Keys != 0 || s.Layers != 1 {
		return fmt.Errorf("emptied: %+v, %w", s, err)
	}
	return nil
}

// FuzzShapes: the fuzzer chooses the shapes of keys, and how ranges of them come and go.
func FuzzShapes(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(randomScript(rand.New(rand.NewPCG(seed, 3)), 10))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if err := playShapes(script); err != nil {
			t.Fatal(err)
		}
	})
}

func randomScript(r *rand.Rand, n int) []byte {
	script := make([]byte, 2*shapeSize+n*commandSize)
	for i := range script {
		script[i] = byte(r.Uint32())
	}
	// The ranges meet, so that what one command stored another one takes away.
	for at := 2*shapeSize + 2; at < len(script); at += commandSize {
		script[at] &= 3
	}
	return script
}

// TestShapes plays random scripts.
func TestShapes(t *testing.T) {
	for seed := range uint64(rounds(50)) {
		r := rand.New(rand.NewPCG(seed, 2))
		if err := playShapes(randomScript(r, 1+r.IntN(mostScript))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
