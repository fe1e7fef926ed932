package simtest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/wire"
)

var corpusFlag = flag.Bool("corpus", false, "write seeds of fuzz targets from the adversary's runs")

// corpus gathers packets of the adversary's runs, as seeds of fuzz targets: what he sent, and what
// was inside of what his keys opened. Of each kind and size it keeps a few.
type corpus struct {
	sent, inner, streams [][]byte
	seen                 map[string]int
}

// gathering collects packets of the adversary's runs. Only TestCorpus sets it.
var gathering *corpus

// Bounds of the seeds: files of each target, and bytes of each.
const (
	corpusFiles = 10
	corpusBytes = 480 // up to four characters for each
	ofAKind     = 2
)

// note keeps a packet in a list, if there are few of its kind and size.
func (c *corpus) note(list *[][]byte, pkt []byte) {
	if c == nil || len(pkt) < 2 {
		return
	}
	kind := fmt.Sprint(list == &c.inner, pkt[0], len(pkt)/64)
	if wire.Type(pkt[0]&15) == wire.TypeMgmt {
		kind += fmt.Sprint(pkt[1])
	}
	if c.seen[kind]++; c.seen[kind] <= ofAKind {
		*list = append(*list, bytes.Clone(pkt))
	}
}

func (c *corpus) opened(plain []byte) {
	if c != nil {
		c.note(&c.inner, plain)
	}
}

func (c *corpus) injected(pkt []byte) {
	if c == nil {
		return
	}
	c.note(&c.sent, pkt)
	var h wire.Header
	if h.Parse(pkt) != nil || h.Type != wire.TypeMgmt || len(c.streams) == corpusFiles {
		return
	}
	body := pkt[wire.HeaderSize:]
	switch wire.Op(h.ReqType) {
	case wire.OpCrypto:
		c.streams = append(c.streams, bytes.Clone(body[wire.CryptoSize:h.MsgSize]))
	case wire.OpConnect:
		if kind, part := wire.Chunk(body[h.MsgSize:]); kind == wire.ChunkCrypto {
			c.streams = append(c.streams, bytes.Clone(part))
		}
	}
}

// TestCorpus writes, with -corpus, what is kept of some runs of TestAdversary to the seeds of the
// fuzz targets that strangers reach first.
func TestCorpus(t *testing.T) {
	if !*corpusFlag {
		t.Skip("only by hand: go test ./erpc/simtest -run TestCorpus -corpus")
	}
	c := &corpus{seen: map[string]int{}}
	gathering = c
	for seed := range uint64(5) {
		adversarySeed(t, seed, map[string]int{})
	}
	gathering = nil
	// Rows of packets: to whom and how, the size, the packet. See FuzzEndpoint, FuzzSealedEndpoint.
	rows := func(list [][]byte, how ...byte) (in [][]byte) {
		var row []byte
		for i, pkt := range list {
			pkt = pkt[:min(len(pkt), 255)]
			row = append(append(row, how[i%len(how)], byte(len(pkt))), pkt...)
			if len(row) > corpusBytes-100 {
				in, row = append(in, row), nil
			}
		}
		return append(in, row)
	}
	const aimed, own, other = 1 << 6, 1 << 4, 2 << 4
	both := append(c.sent, c.inner...)
	write(t, "erpc", "FuzzEndpoint", rows(c.inner, 0, 2, 1, 3, aimed, aimed|1), "byte('\\x00')")
	write(t, "erpc", "FuzzSealedEndpoint", append(rows(c.inner, aimed|own, aimed|own|1, aimed|other,
		aimed|other|1)[:corpusFiles/2], rows(c.sent, 0, 4, 1, 5, 16|4, 32|4)...))
	write(t, "wire", "FuzzParse", both)
	var bundles, streams [][]byte
	for _, pkt := range c.inner {
		if wire.IsBundle(pkt) {
			bundles = append(bundles, pkt)
		}
	}
	for i, s := range c.streams {
		streams = append(streams, append([]byte{byte(1 | i%4<<1), byte(50 * i)}, s...))
	}
	write(t, "wire", "FuzzBundle", bundles)
	write(t, "security", "FuzzHandshake", streams)
}

// write writes seeds of a target, spread over a list, each with the same further values.
func write(t *testing.T, pkg, target string, list [][]byte, more ...string) {
	t.Helper()
	dir := filepath.Join("..", "..", pkg, "testdata", "fuzz", target)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n := min(corpusFiles, len(list))
	for i := range n {
		in := list[i*len(list)/n]
		lines := []string{"go test fuzz v1", fmt.Sprintf("[]byte(%q)", in[:min(len(in), corpusBytes)])}
		text := strings.Join(append(lines, more...), "\n") + "\n"
		name := filepath.Join(dir, fmt.Sprintf("adversary%d", i))
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s %s: %d of %d", pkg, target, n, len(list))
}
