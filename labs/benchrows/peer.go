package benchrows

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"time"
)

// Peer is a server process of its own beside ours, and a connection to it.
type Peer struct {
	cmd  *exec.Cmd
	conn net.Conn
	In   *bufio.Reader
	Out  *bufio.Writer
	Err  error // the first one; nothing is asked afterwards
}

// StartPeer starts a server from PATH on a free TCP port of this machine, pins it to ServerCore and
// connects to it. args are those for a port. The caller must Stop it.
func StartPeer(name string, args func(port string) []string) (*Peer, error) {
	exe, err := exec.LookPath(name)
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
	p := &Peer{cmd: exec.Command(exe, args(port)...)}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	PinProcess(p.cmd.Process.Pid, ServerCore)
	if err := p.connect(addr); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Connect returns a Peer that is a connection to a server that runs already.
func Connect(addr string) (*Peer, error) {
	p := &Peer{}
	return p, p.connect(addr)
}

func (p *Peer) connect(addr string) (err error) {
	for range 600 {
		if p.conn, err = net.Dial("tcp", addr); err == nil {
			p.In, p.Out = bufio.NewReaderSize(p.conn, 1<<20), bufio.NewWriterSize(p.conn, 1<<16)
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// Address returns the address of the server.
func (p *Peer) Address() string { return p.conn.RemoteAddr().String() }

// Pid returns the number of the process, 0 if StartPeer has started none.
func (p *Peer) Pid() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Stop ends the connection, and the process if StartPeer has started one.
func (p *Peer) Stop() {
	if p.conn != nil {
		_ = p.conn.Close()
	}
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// Pipelined keeps depth operations under way for some time, and returns the nanoseconds of one:
// half of them are sent while the others are answered. ask writes one to Out, take reads an answer.
func (p *Peer) Pipelined(each time.Duration, depth int, ask, take func()) float64 {
	begin := time.Now()
	ops, open := 0, 0
	for over := false; p.Err == nil; over = time.Since(begin) >= each {
		for ; !over && open < depth; open++ {
			ask()
		}
		_ = p.Out.Flush() // reading fails then
		for n := min(open, max(depth/2, 1)); n > 0 && p.Err == nil; n-- {
			take()
			ops++
			open--
		}
		if over && open == 0 {
			break
		}
	}
	return float64(time.Since(begin)) / float64(max(ops, 1))
}

// StartRedis starts a redis-server that keeps nothing on disk.
func StartRedis() (*Peer, error) {
	return StartPeer("redis-server", func(port string) []string {
		return []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
			"--loglevel", "warning"}
	})
}

// Command writes a command of redis.
func (p *Peer) Command(args ...string) {
	_, _ = p.Out.WriteString("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, a := range args {
		_, _ = p.Out.WriteString("$" + strconv.Itoa(len(a)) + "\r\n" + a + "\r\n")
	}
}

// Line reads a line without its end, which is valid until the next call.
func (p *Peer) Line() []byte {
	line, err := p.In.ReadSlice('\n')
	if err != nil || len(line) < 2 || line[len(line)-2] != '\r' {
		p.fail(fmt.Errorf("answer %q: %w", line, err))
		return nil
	}
	return line[:len(line)-2]
}

func (p *Peer) fail(err error) {
	if p.Err == nil {
		p.Err = err
	}
}

// Reply reads a reply of redis: the text of a string or number, or how many members an array has,
// each of which is handed to each if that is not nil.
func (p *Peer) Reply(each func(text []byte)) (text []byte, members int) {
	line := p.Line()
	if len(line) < 2 {
		p.fail(fmt.Errorf("redis: %q", line))
		return nil, 0
	}
	kind, body := line[0], line[1:]
	n, _ := strconv.Atoi(string(body))
	switch kind {
	case ':', '+':
		return body, 0
	case '$':
		if n < 0 {
			return nil, 0
		}
		text = make([]byte, n+2)
		if _, err := io.ReadFull(p.In, text); err != nil {
			p.fail(err)
		}
		return text[:n], 0
	case '*':
		for range n {
			member, _ := p.Reply(nil)
			if each != nil {
				each(member)
			}
		}
		return nil, n
	}
	p.fail(fmt.Errorf("redis: %q", line))
	return nil, 0
}
