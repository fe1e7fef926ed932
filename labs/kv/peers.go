package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/userspace-rpc/erpc/labs/benchrows"
)

// under returns how many requests of so many keys are under way.
func under(keys int) int {
	if keys == 1 {
		return depth
	}
	return multiDepth
}

// multi is how many keys a multi-get has.
const multi = 64

// peer is a server of memcached's or of redis' protocol.
type peer struct {
	*benchrows.Peer
	w     *words
	asked []uint64
	body  [valueSize + 2]byte
}

// startMemcached starts memcached with one thread, and fills it.
func startMemcached(w *words) (*peer, error) {
	p, err := benchrows.StartPeer("memcached", func(port string) []string {
		return []string{"-p", port, "-l", "127.0.0.1", "-t", "1", "-U", "0", "-u", "root",
			"-m", strconv.Itoa(64 + int(w.n)*256>>20)}
	})
	if err != nil {
		return nil, err
	}
	m := &peer{Peer: p, w: w}
	for i := range w.n {
		value := w.valueOf(i)
		fmt.Fprintf(m.Out, "set %s 0 0 %d noreply\r\n", w.of(i), valueSize)
		_, _ = m.Out.Write(value)
		_, _ = m.Out.WriteString("\r\n")
	}
	_, _ = m.Out.WriteString("version\r\n") // its answer comes when all are there
	_ = m.Out.Flush()                       // reading fails then
	m.Line()
	return m, m.Err
}

// startRedis starts redis, and fills it.
func startRedis(w *words) (*peer, error) {
	p, err := benchrows.StartRedis()
	if err != nil {
		return nil, err
	}
	m := &peer{Peer: p, w: w}
	for i := uint64(0); i < w.n; {
		args := []string{"MSET"}
		for ; i < w.n && len(args) < 1000; i++ {
			key := string(w.of(i)) // valueOf needs the same memory
			args = append(args, key, string(w.valueOf(i)))
		}
		m.Command(args...)
		_ = m.Out.Flush() // reading fails then
		m.Reply(nil)
	}
	return m, m.Err
}

// connect returns a connection to our own server of memcached's protocol.
func connect(addr string, w *words) (*peer, error) {
	p, err := benchrows.Connect(addr)
	return &peer{Peer: p, w: w}, err
}

// texts returns a row of memcached's gets, with so many keys each.
func (p *peer) texts(keys int) func(time.Duration) float64 {
	return func(each time.Duration) float64 {
		return p.Pipelined(each, under(keys), func() {
			_, _ = p.Out.WriteString("get")
			for range keys {
				p.ask(p.Out, " ")
			}
			_, _ = p.Out.WriteString("\r\n")
		}, func() { p.values(keys) }) / float64(keys)
	}
}

// ask writes a key behind a text.
func (p *peer) ask(out io.Writer, before string) {
	i := p.w.next()
	p.asked = append(p.asked, i)
	_, _ = io.WriteString(out, before)
	_, _ = out.Write(p.w.of(i))
}

// values reads an answer of memcached. All keys are there, and come in their order.
func (p *peer) values(keys int) {
	for range keys {
		line := p.Line()
		if !bytes.HasPrefix(line, []byte("VALUE ")) {
			p.missed(fmt.Errorf("memcached: %q", line))
			return
		}
		if _, err := io.ReadFull(p.In, p.body[:]); err != nil {
			p.missed(err)
			return
		}
		p.got(p.body[:valueSize])
	}
	if line := p.Line(); string(line) != "END" {
		p.missed(fmt.Errorf("memcached: %q, want END", line))
	}
}

func (p *peer) missed(err error) {
	if p.Err == nil {
		p.Err = err
	}
}

// got takes the value of the key that was asked for first.
func (p *peer) got(value []byte) {
	p.w.found(p.asked[0], value)
	p.asked = p.asked[1:]
}

// mgets returns a row of redis' MGETs with so many keys each, or of GETs.
func (p *peer) mgets(keys int) func(time.Duration) float64 {
	return func(each time.Duration) float64 {
		return p.Pipelined(each, under(keys), func() {
			name := "MGET"
			if keys == 1 {
				name = "GET"
			}
			args := []string{name}
			for range keys {
				i := p.w.next()
				p.asked = append(p.asked, i)
				args = append(args, string(p.w.of(i)))
			}
			p.Command(args...)
		}, func() {
			if text, n := p.Reply(p.got); n == 0 {
				p.got(text)
			}
		}) / float64(keys)
	}
}
