package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/userspace-rpc/erpc/cmd/erpc/watch"
	"github.com/userspace-rpc/erpc/debug"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
)

type topCmd struct {
	target
	Interval time.Duration `short:"i" default:"1s" help:"From one look to the next; ${default}."`
	Count    int           `short:"c" help:"End after so many looks." placeholder:"N"`
	Sessions int           `default:"32" help:"Most sessions of each loop; ${default}."`
	HTTP     string        `name:"http" help:"Show it as a web page here." placeholder:"HOST:PORT"`
	JSON     bool          `name:"json" help:"Print one JSON object for each look."`
}

// Help is shown by --help.
func (topCmd) Help() string {
	return `Examples:
  erpc server --debug &            a program to look at; others use debug.Listen
  erpc top                         the only program with a debug socket
  erpc top 4711 --interval 250ms
  erpc top | grep 'type name="work"'   over a pipe: lines of name=value
  erpc top --http 127.0.0.1:8080   the same as a web page
Keys: q ends, p pauses. The web page is for whoever has its address: a part of it is random.`
}

// Run implements the subcommand.
func (c *topCmd) Run(e *env) error {
	err := errors.Join(cli.Positive("--count", c.Count, 0), cli.Positive("--sessions", c.Sessions, 0))
	switch {
	case err != nil:
		return err
	case c.Interval < 10*time.Millisecond:
		return cli.Usagef("--interval %v: must be at least 10ms", c.Interval)
	case c.Sessions > erpc.MaxLook:
		return cli.Usagef("--sessions %d: must be at most %d", c.Sessions, erpc.MaxLook)
	}
	client, about, err := c.open(e.ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	l := &looker{client: client, meter: watch.NewMeter(about), sessions: c.Sessions}
	if c.HTTP != "" {
		return c.serve(e, l)
	}
	if f, ok := e.out.(*os.File); ok && !c.JSON && term.IsTerminal(int(f.Fd())) {
		return c.screen(e, l, f)
	}
	return c.eachLook(e.ctx, func() error {
		f, err := l.look(e.ctx)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return json.NewEncoder(e.out).Encode(f)
		}
		return f.Lines(e.out)
	})
}

// looker takes frames of a program.
type looker struct {
	client   *debug.Client
	meter    *watch.Meter
	sessions int
}

// look takes one.
func (l *looker) look(ctx context.Context) (*watch.Frame, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	snaps, err := l.client.Snapshots(ctx, l.sessions)
	if err != nil {
		return nil, explain(err)
	}
	return l.meter.Next(snaps), nil
}

// eachLook calls look at once and then after each interval, until ctx ends, --count is reached or
// it fails.
func (c *topCmd) eachLook(ctx context.Context, look func() error) error {
	ticker := time.NewTicker(c.Interval)
	defer ticker.Stop()
	for n := 1; ; n++ {
		if err := look(); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if n == c.Count {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// serve shows frames on a web page.
func (c *topCmd) serve(e *env, l *looker) error {
	lis, err := net.Listen("tcp", c.HTTP)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	host, _, _ := net.SplitHostPort(c.HTTP) // it was good enough to listen on
	page := watch.NewPage()
	door := watch.NewDoor(page, host)
	srv := &http.Server{Handler: door, ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	url := "http://" + lis.Addr().String() + door.Path()
	if c.JSON {
		line := map[string]any{"ready": true, "url": url}
		_ = json.NewEncoder(e.out).Encode(line)
	} else {
		fmt.Fprintf(e.out, "showing %s at %s\n", l.client.Path(), url)
		fmt.Fprintln(e.err, "Ctrl-C ends")
	}
	err = c.eachLook(e.ctx, func() error {
		select {
		case err := <-served:
			return err
		default:
		}
		f, err := l.look(e.ctx)
		if err != nil { // the program may have ended: the page says so
			return page.Show(nil, cli.OneLine(err))
		}
		return page.Show(f, "")
	})
	return errors.Join(err, srv.Close())
}

// screen shows frames on a terminal until q, Ctrl-C, or --count.
func (c *topCmd) screen(e *env, l *looker, out *os.File) error {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	keys := make(chan byte)
	if in, ok := e.in.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return err
		}
		defer func() { _ = term.Restore(int(in.Fd()), before) }()
		go readKeys(ctx, in, keys)
	}
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l")
	defer fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
	ticker := time.NewTicker(c.Interval)
	defer ticker.Stop()
	var last *watch.Frame
	paused, note := false, ""
	for n := 1; ; n++ {
		if !paused {
			f, err := l.look(ctx)
			if note = ""; err != nil {
				note = cli.OneLine(err)
			} else {
				last = f
			}
		}
		paint(out, last, note, paused)
		if n == c.Count {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		case k := <-keys:
			switch k {
			case 'q', 'Q', 3, 4: // Ctrl-C, Ctrl-D
				return nil
			case 'p', ' ':
				paused = !paused
			}
		}
	}
}

// readKeys hands keys on until ctx ends. It may wait for one key more after that.
func readKeys(ctx context.Context, in io.Reader, keys chan<- byte) {
	var b [1]byte
	for {
		if n, err := in.Read(b[:]); n == 0 || err != nil {
			return
		}
		select {
		case keys <- b[0]:
		case <-ctx.Done():
			return
		}
	}
}

// paint draws a frame over the one before.
func paint(out *os.File, f *watch.Frame, note string, paused bool) {
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	switch {
	case note != "":
	case paused:
		note = "paused; p goes on, q ends"
	default:
		note = "q ends, p pauses"
	}
	if f == nil {
		f = new(watch.Frame)
	}
	style := watch.Style{Width: width, Height: height, Colour: os.Getenv("NO_COLOR") == ""}
	text := "\x1b[H"
	for i, line := range f.Text(style, note) {
		if i > 0 {
			text += "\r\n"
		}
		text += line + "\x1b[K"
	}
	fmt.Fprint(out, text+"\x1b[J")
}
