package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"time"
)

// redis is a redis-server of this program's own, and a connection to it. It has two sorted sets:
// "v" with values as scores, "k" with no scores, which is in the order of its members.
type redis struct {
	b    *bench
	cmd  *exec.Cmd
	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
	err  error
}

// newRedis starts redis-server from PATH on a port of its own, and fills it.
func newRedis(b *bench) (r *redis, err error) {
	exe, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := free.Addr().String()
	_ = free.Close()
	_, port, _ := net.SplitHostPort(addr)
	r = &redis{b: b, cmd: exec.Command(exe, "--port", port, "--bind", "127.0.0.1", "--save", "",
		"--appendonly", "no", "--loglevel", "warning")}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	pinProcess(r.cmd.Process.Pid, serverCore)
	for range 600 {
		if r.conn, err = net.Dial("tcp", addr); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		r.stop()
		return nil, err
	}
	r.in, r.out = bufio.NewReaderSize(r.conn, 1<<20), bufio.NewWriterSize(r.conn, 1<<16)
	const some = 500
	for at := 0; at < len(b.keys); at += some {
		list := b.keys[at:min(at+some, len(b.keys))]
		for _, set := range []string{"v", "k"} {
			args := []string{"ZADD", set}
			for i, k := range list {
				score := "0"
				if set == "v" {
					score = strconv.Itoa(at + i)
				}
				args = append(args, score, string(binary.BigEndian.AppendUint64(nil, k)))
			}
			r.command(args...)
			_ = r.out.Flush()
			r.reply()
		}
	}
	if r.err != nil {
		r.stop()
		return nil, r.err
	}
	return r, nil
}

// stop ends the process that newRedis has started.
func (r *redis) stop() {
	if r.conn != nil {
		_ = r.conn.Close()
	}
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// command writes a command.
func (r *redis) command(args ...string) {
	_, _ = r.out.WriteString("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, a := range args {
		_, _ = r.out.WriteString("$" + strconv.Itoa(len(a)) + "\r\n" + a + "\r\n")
	}
}

// reply reads a reply: the text of a string or number, or how many members an array has.
func (r *redis) reply() (text []byte, members int) {
	line, err := r.in.ReadSlice('\n')
	if err != nil || len(line) < 3 {
		r.err = fmt.Errorf("redis: %q, %w", line, err)
		return nil, 0
	}
	body := line[1 : len(line)-2]
	n, _ := strconv.Atoi(string(body))
	switch line[0] {
	case ':', '+':
		return body, 0
	case '$':
		text = make([]byte, max(n, 0)+2)
		if n >= 0 {
			_, r.err = io.ReadFull(r.in, text)
		}
		return text[:max(n, 0)], 0
	case '*':
		for range n {
			r.reply()
		}
		return nil, n
	}
	r.err = fmt.Errorf("redis: %q", line)
	return nil, 0
}

// gets keeps depth ZSCOREs under way: half of them are sent while the others are answered.
func (r *redis) gets(each time.Duration) float64 {
	var asked []entry
	return r.pipelined(each, func() {
		e := r.b.next(1)[0]
		asked = append(asked, e)
		r.command("ZSCORE", "v", string(binary.BigEndian.AppendUint64(nil, e.key)))
	}, func() {
		text, _ := r.reply()
		v, err := strconv.ParseUint(string(text), 10, 64)
		r.b.check(v, asked[0].value, err == nil)
		asked = asked[1:]
	})
}

// scans keeps depth scans of 128 members under way.
func (r *redis) scans(each time.Duration) float64 {
	return r.pipelined(each, func() {
		from := binary.BigEndian.AppendUint64([]byte("["), r.b.next(1)[0].key)
		r.command("ZRANGEBYLEX", "k", string(from), "+", "LIMIT", "0", "128")
	}, func() {
		if _, n := r.reply(); n == 0 {
			r.b.wrong++
		}
	})
}

func (r *redis) pipelined(each time.Duration, ask, take func()) float64 {
	begin := time.Now()
	ops, open := 0, 0
	for over := false; r.err == nil; over = time.Since(begin) >= each {
		for ; !over && open < depth; open++ {
			ask()
		}
		_ = r.out.Flush()
		for n := min(open, depth/2); n > 0 && r.err == nil; n-- {
			take()
			ops++
			open--
		}
		if over && open == 0 {
			break
		}
	}
	return float64(time.Since(begin)) / float64(ops)
}
