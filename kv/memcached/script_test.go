package memcached

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kv/mica"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tape is a connection whose client has said everything.
type tape struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (t *tape) Read(b []byte) (int, error)       { return t.in.Read(b) }
func (t *tape) Write(b []byte) (int, error)      { return t.out.Write(b) }
func (t *tape) SetWriteDeadline(time.Time) error { return nil }
func (t *tape) SetReadDeadline(time.Time) error  { return nil }
func (t *tape) Close() error                     { return nil }

// newServer makes a server of n partitions, and its clock.
func newServer(t testing.TB, n int, cfg mica.Config) (*Server, *uint32) {
	t.Helper()
	now := uint32(1_700_000_000)
	cfg.NoHugepages = true
	if cfg.Memory == 0 {
		cfg.Memory = 4 << 20
	}
	var parts []*mica.Partition
	for range n {
		p, err := mica.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	s := New(Config{Store: NewLocal(func() uint32 { return now }, parts...), Version: "1.2.3"})
	t.Cleanup(func() {
		err := s.Close()
		for _, p := range parts {
			err = errors.Join(err, p.Close())
		}
		if err != nil {
			t.Error(err)
		}
	})
	return s, &now
}

// play gives a server what a client says, in pieces of a size, and returns the answers.
func play(s *Server, said string, piece int) string {
	t := &tape{in: &pieces{[]byte(said), piece}}
	newConn(s, t).serve()
	return t.out.String()
}

// pieces is a reader of so many bytes at a time.
type pieces struct {
	rest []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// script is lines of a client and of the server, in turns: what the server says begins with "< ".
func check(t *testing.T, s *Server, script string, piece int) {
	t.Helper()
	var said, want strings.Builder
	for line := range strings.Lines(strings.TrimSpace(script)) {
		line = strings.TrimRight(strings.TrimLeft(line, "\t"), "\n")
		if answer, ok := strings.CutPrefix(line, "< "); ok {
			want.WriteString(answer + "\r\n")
		} else {
			said.WriteString(line + "\r\n")
		}
	}
	if got := play(s, said.String(), piece); got != want.String() {
		g, w := strings.Split(got, "\r\n"), strings.Split(want.String(), "\r\n")
		for i := range min(len(g), len(w)) {
			if g[i] != w[i] {
				t.Errorf("in pieces of %d: answer %d is %q, want %q", piece, i, g[i], w[i])
				return
			}
		}
		t.Errorf("in pieces of %d: %d answers, want %d: %q", piece, len(g), len(w), got)
	}
}

// TestScripts: answers to commands, however they are cut into packets.
func TestScripts(t *testing.T) {
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			for _, piece := range []int{1, 7, 1 << 20} {
				for _, parts := range []int{1, 3} {
					s, _ := newServer(t, parts, mica.Config{})
					check(t, s, script, piece)
				}
			}
		})
	}
}

var scripts = map[string]string{
	"classic": `
		get a
		< END
		set a 7 0 3
		abc
		< STORED
		get a
		< VALUE a 7 3
		< abc
		< END
		add a 0 0 1
		x
		< NOT_STORED
		add b 1 0 0

		< STORED
		replace c 0 0 1
		x
		< NOT_STORED
		replace b 4294967295 0 2
		xy
		< STORED
		get a c b a
		< VALUE a 7 3
		< abc
		< VALUE b 4294967295 2
		< xy
		< VALUE a 7 3
		< abc
		< END
		append a 0 0 2
		de
		< STORED
		prepend a 1 0 2
		__
		< STORED
		append c 0 0 1
		x
		< NOT_STORED
		get a
		< VALUE a 7 7
		< __abcde
		< END
		delete a
		< DELETED
		delete a
		< NOT_FOUND
		delete b 0
		< DELETED
		set n 0 0 2 noreply
		10
		incr n 5
		< 15
		decr n 6
		< 9
		get n
		< VALUE n 0 2
		< 9 
		< END
		decr n 100
		< 0
		incr n 18446744073709551615
		< 18446744073709551615
		incr n 1
		< 0
		incr missing 1
		< NOT_FOUND
		touch n 100
		< TOUCHED
		touch missing 100
		< NOT_FOUND
		gat 10 n missing
		< VALUE n 0 20
		< 0                   
		< END
		incr n 1 noreply
		delete n noreply
		get n
		< END
		version
		< VERSION 1.2.3
		verbosity 1
		< OK
		set a 0 0 1
		x
		< STORED
		flush_all
		< OK
		flush_all noreply
		get a
		< END
		quit
		get a`,
	"wrong": `
		mn
		< MN

		< ERROR
		nothing
		< ERROR
		get
		< ERROR
		gat 1
		< END
		gat
		< ERROR
		set a 0 0 3
		abcde
		< CLIENT_ERROR bad data chunk
		< ERROR
		set s 0 0 1
		x
		< STORED
		incr s 1
		< CLIENT_ERROR cannot increment or decrement non-numeric value
		incr s x
		< CLIENT_ERROR invalid numeric delta argument
		incr s
		< ERROR
		touch s
		< ERROR
		touch s x
		< CLIENT_ERROR invalid exptime argument
		gat x s
		< CLIENT_ERROR invalid exptime argument
		delete
		< ERROR
		delete s 1
		< CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]
		flush_all x
		< CLIENT_ERROR invalid exptime argument
		verbosity
		< ERROR
		stats nothing
		< CLIENT_ERROR no statistics of that name are kept
		get s
		< VALUE s 0 1
		< x
		< END`,
	"meta": `
		mn
		< MN
		mg a v
		< EN
		mg a v q
		mn
		< MN
		ms a 3 F7 O1 k
		abc
		< HD O1 ka
		mg a
		< HD
		mg a s t f k v O9
		< VA 3 s3 t-1 f7 ka O9
		< abc
		ms a 1 ME
		x
		< NS
		ms a 1 MA q
		d
		ms a 1 MP
		_
		< HD
		mg a v
		< VA 5
		< _abcd
		ms none 1 MR
		x
		< NS
		ms none 1 MA
		x
		< NS
		ms none 1 C5
		x
		< NF
		ms a 1 C99999
		x
		< EX
		md a C99999
		< EX
		md a q
		md a O5
		< NF O5
		ms YQ== 2 b k
		xy
		< HD b kYQ==
		get a
		< VALUE a 0 2
		< xy
		< END
		mg YQ== b k v
		< VA 2 b kYQ==
		< xy
		ms n 2
		10
		< HD
		ma n
		< HD
		ma n v D9
		< VA 2
		< 20
		ma n MD D11 v
		< VA 1
		< 9
		ma n M- q
		ma none
		< NF
		mg n T100 t
		< HD t100
		mg n t T50
		< HD t100
		ms a 1 T-1
		x
		< HD
		mg a
		< EN`,
	"meta, wrong": `
		mg
		< ERROR
		mg a z
		< CLIENT_ERROR invalid flag
		mg a l
		< CLIENT_ERROR invalid flag
		mg a v v
		< CLIENT_ERROR duplicate flag
		mg a Tx
		< CLIENT_ERROR bad token in command line format
		ms a 3 MX
		abc
		< CLIENT_ERROR bad token in command line format
		ms !! 3 b
		abc
		< CLIENT_ERROR error decoding key
		ma a MX
		< CLIENT_ERROR bad token in command line format
		ms a 2
		abc
		< CLIENT_ERROR bad data chunk
		< ERROR
		ms a 1
		x
		< HD
		ma a
		< CLIENT_ERROR cannot increment or decrement non-numeric value`,
}

// TestCAS: versions that gets returns are those that cas wants.
func TestCAS(t *testing.T) {
	s, _ := newServer(t, 1, mica.Config{FirstVersion: 100})
	check(t, s, `
		set a 0 0 1
		x
		< STORED
		gets a
		< VALUE a 0 1 101
		< x
		< END
		cas a 0 0 1 100
		y
		< EXISTS
		cas a 0 0 1 101
		y
		< STORED
		cas b 0 0 1 101
		y
		< NOT_FOUND
		cas a 0 0 1 101 noreply
		z
		gats 0 a
		< VALUE a 0 1 102
		< y
		< END
		mg a c
		< HD c102
		ms a 1 C102 c
		z
		< HD c103
		ma a C1
		< EX`, 1000)
}

// TestTimes: times count from now up to 30 days, from 1970 above, and are over when negative.
func TestTimes(t *testing.T) {
	s, now := newServer(t, 2, mica.Config{})
	at := fmt.Sprint(*now + 10)
	check(t, s, "set a 0 10 1\nx\n< STORED\nset b 0 "+at+" 1\nx\n< STORED\n"+
		"set c 0 -1 1\nx\n< STORED\n"+
		"set d 0 2592000 1\nx\n< STORED\nset e 0 2592001 1\nx\n< STORED\nget a b c d e\n"+
		"< VALUE a 0 1\n< x\n< VALUE b 0 1\n< x\n< VALUE d 0 1\n< x\n< END\ntouch d 5\n< TOUCHED", 1000)
	*now += 5
	check(t, s, "get a b d\n< VALUE a 0 1\n< x\n< VALUE b 0 1\n< x\n< END\nmg a t\n< HD t5", 1000)
	*now += 5
	check(t, s, "get a b d\n< END", 1000)
}

// TestForgotten: items past their time go when nobody asks for them.
func TestForgotten(t *testing.T) {
	s, now := newServer(t, 1, mica.Config{Mode: mica.Store})
	check(t, s, "set a 0 10 1\nx\n< STORED", 1000)
	*now += 10
	if got := play(s, "get b\r\nstats\r\n", 1000); !strings.Contains(got, "curr_items 0\r\n") {
		t.Errorf("%q", got)
	}
}

// TestSizes: the largest keys and values, and larger ones.
func TestSizes(t *testing.T) {
	s, _ := newServer(t, 1, mica.Config{Mode: mica.Store, Memory: 3 << 20})
	key, value := strings.Repeat("k", 250), strings.Repeat("v", 1<<20)
	line := fmt.Sprint(" 0 0 ", 1<<20, "\n", value, "\n")
	check(t, s, "set "+key+line+"< STORED\nget "+key+"\n< VALUE "+key+fmt.Sprint(" 0 ", 1<<20)+"\n< "+
		value+"\n< END\nget k"+key+"\n< CLIENT_ERROR bad command line format\n"+
		"set "+key+" 0 0 1048577\nx"+value+"\n< SERVER_ERROR object too large for cache\n"+
		"append "+key+" 0 0 1\nx\n< SERVER_ERROR object too large for cache\n"+
		"ms big 1048577\nx"+value+"\n< SERVER_ERROR object too large for cache\n"+
		"set b"+line+"< STORED\nset c"+line+"< SERVER_ERROR out of memory storing object\nmn\n< MN", 5000)
	got := play(s, strings.Repeat("x", maxLine+1)+"\r\nmn\r\n", 5000)
	if got != "CLIENT_ERROR line too long\r\n" {
		t.Errorf("%q", got)
	}
	many := "set small 0 0 1 noreply\r\nx\r\nget" + strings.Repeat(" small", 200)
	got = play(s, many+"\r\n", 5000)
	if strings.Count(got, "VALUE") != 200 || !strings.HasSuffix(got, "END\r\n") {
		t.Errorf("%d values", strings.Count(got, "VALUE"))
	}
}

// FuzzConn: whatever a client says, each connection ends, and the next one is served.
func FuzzConn(f *testing.F) {
	for _, script := range scripts {
		f.Add([]byte(strings.ReplaceAll(strings.ReplaceAll(script, "\t", ""), "\n", "\r\n")), 5)
	}
	s, _ := newServer(f, 2, mica.Config{Memory: 1 << 20})
	f.Fuzz(func(t *testing.T, said []byte, piece int) {
		play(s, string(said), max(piece, 1))
		if got := play(s, "set probe 0 0 1\r\nx\r\nget probe\r\n", 100); got !=
			"STORED\r\nVALUE probe 0 1\r\nx\r\nEND\r\n" {
			t.Fatalf("%q after %q", got, said)
		}
	})
}
