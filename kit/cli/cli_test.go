package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"
)

// childKey makes the test program a child, which does what the variable says.
const childKey = "CLI_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childKey) {
	case "":
		os.Exit(m.Run())
	case "ready":
		fmt.Println(`{"Arg": "` + os.Args[1] + `"}`)
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "fails":
		fmt.Fprintln(os.Stderr, "no room")
		os.Exit(3)
	}
}

// grammar has a subcommand that fails as asked.
type grammar struct {
	Say sayCmd `cmd:"" help:"Say it."`
}

type sayCmd struct {
	Word string `arg:""`
	To   string `arg:"" optional:""`
	JSON bool
	Log  string
	From string `empty:""`
}

func (c *sayCmd) Run(e *Env) error {
	switch c.Word {
	case "usage":
		return fmt.Errorf("say: %w", Usagef("%d words too many", 2))
	case "full":
		return fmt.Errorf("no socket: %w", syscall.EMFILE)
	case "lines":
		return errors.Join(errors.New("erpc: one"), errors.New("two"))
	}
	return e.Print(c.JSON, []string{c.Word}, "said %s", c.Word)
}

// TestRun: each outcome has its status, and its line on the right stream.
func TestRun(t *testing.T) {
	for args, want := range map[string]struct {
		status   int
		out, err string // parts; empty: nothing at all
	}{
		"say hi":         {Done, "said hi\n", ""},
		"say hi --from=": {Done, "said hi\n", ""},
		"say hi --log=":  {Usage, "", "tell: --log: nothing is behind it; see tell say --help\n"},
		"say hi --json":  {Done, `["hi"]` + "\n", ""},
		"":               {Done, "Say it.", ""},
		"--help":         {Done, "Say it.", ""},
		"say usage":      {Usage, "", "tell: say: 2 words too many; see tell say --help\n"},
		"say lines":      {Failed, "", "tell: one; two\n"},
		"say":            {Usage, "", "; see tell say --help\n"},
		"say x --bad":    {Usage, "", "unknown flag --bad; see tell say --help\n"},
		"say -5ms":       {Done, "said -5ms\n", ""},
		"say --json -5":  {Done, `["-5"]` + "\n", ""},
		"say -- -5":      {Done, "said -5\n", ""},
		"say -5 --json":  {Usage, "", "unknown flag -5"},
		"say -5 -6":      {Done, "said -5\n", ""},
		"-5":             {Usage, "", "see tell --help\n"},
		"say full":       {Failed, "", "ulimit -n"},
		"--nonsense":     {Usage, "", "tell: unknown flag --nonsense; see tell --help\n"},
	} {
		var out, err strings.Builder
		e := &Env{Ctx: t.Context(), In: strings.NewReader(""), Out: &out, Err: &err}
		app := App{Name: "tell", Description: "Says things."}
		status := app.Run(e, &grammar{}, strings.Fields(args), runs)
		if status != want.status || !said(out.String(), want.out) || !said(err.String(), want.err) {
			t.Errorf("%q: status %d, %q, %q", args, status, out.String(), err.String())
		}
	}
}

// said reports whether a stream has what it should have.
func said(got, want string) bool {
	return strings.Contains(got, want) && (want != "" || got == "")
}

func runs(e *Env, k *kong.Context) error { return k.Run(e) }

// TestEnd: goroutines and two logs write to the standard error side by side; with the command ends
// its context, and what they write later is not in the stream.
func TestEnd(t *testing.T) {
	var err strings.Builder
	var later *Env
	var all sync.WaitGroup
	e := &Env{Ctx: t.Context(), In: strings.NewReader(""), Out: io.Discard, Err: &err}
	App{Name: "tell"}.Run(e, &grammar{}, []string{"say", "x"}, func(e *Env, _ *kong.Context) error {
		later = e
		for range 2 {
			log := slog.New(slog.NewTextHandler(e.Err, nil))
			all.Go(func() {
				for range 100 {
					log.Info("during")
				}
				<-e.Ctx.Done()
				for range 100 {
					log.Info("afterwards")
				}
			})
		}
		_, err := fmt.Fprintln(e.Err, "the command")
		return err
	})
	said := err.String()
	all.Wait()
	if later.Ctx.Err() == nil || !strings.Contains(said, "the command") || err.String() != said ||
		strings.Contains(said, "afterwards") {
		t.Errorf("%v, %q, %q", later.Ctx.Err(), said, err.String())
	}
}

// TestBadGrammar: a grammar that kong refuses fails.
func TestBadGrammar(t *testing.T) {
	var err strings.Builder
	e := &Env{Ctx: t.Context(), Out: io.Discard, Err: &err}
	if s := (App{Name: "tell"}).Run(e, grammar{}, nil, nil); s != Failed || err.Len() == 0 {
		t.Errorf("status %d, %q", s, err.String())
	}
}

// TestPanic: a panic of a subcommand is not taken for the end of --help.
func TestPanic(t *testing.T) {
	defer func() {
		if p := recover(); p != "boom" {
			t.Errorf("recovered %v", p)
		}
	}()
	e := &Env{Ctx: t.Context(), Out: io.Discard, Err: io.Discard}
	App{Name: "tell"}.Run(e, &grammar{}, []string{"say", "x"}, func(*Env, *kong.Context) error {
		panic("boom")
	})
}

// TestStartChild: a child says that it is ready and ends when it is stopped; if it ends before, the
// error has what it said.
func TestStartChild(t *testing.T) {
	var ready struct{ Arg string }
	c, err := StartChild([]string{"x"}, []string{childKey + "=ready"}, &ready)
	if err != nil || ready.Arg != "x" {
		t.Fatalf("%+v, %v", ready, err)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	_, err = StartChild(nil, []string{childKey + "=fails"}, &ready)
	if err == nil || !strings.Contains(err.Error(), "no room") ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
}

// TestCores: a thread may be pinned to any core that it may use.
func TestCores(t *testing.T) {
	cores := AllowedCores()
	done := make(chan error)
	for _, core := range cores {
		go func() { done <- pinned(core) }()
		if err := <-done; err != nil {
			t.Errorf("core %d: %v", core, err)
		}
	}
}

// TestMoved: a subcommand that has left names the command that has it, whatever its arguments.
func TestMoved(t *testing.T) {
	var c struct {
		Old Moved `cmd:"" hidden:"" passthrough:"" help:"tell-more old"`
	}
	for _, args := range []string{"old", "old --rounds 3 x"} {
		var out, err strings.Builder
		e := &Env{Ctx: t.Context(), In: strings.NewReader(""), Out: &out, Err: &err}
		app := App{Name: "tell", Description: "Says things."}
		status := app.Run(e, &c, strings.Fields(args), runs)
		if status != Usage || out.Len() > 0 || !said(err.String(),
			"it is tell-more old now, and make bin/tell-more builds that") {
			t.Errorf("%q: status %d, %q, %q", args, status, out.String(), err.String())
		}
	}
}

// TestVisible: nothing is left that a terminal would obey, and what can be read stays.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a b\n\tc": "a b\n\tc",
		"na\u00efve \u65e5\u672c\u3000\U0001f600": "naïve 日本\u3000\U0001f600",
		"\x1b[31mred\x1b[0m":                      `\u001b[31mred\u001b[0m`,
		"\r\a\b\x00\x7f":                          `\u000d\u0007\u0008\u0000\u007f`,
		"\u009b31m":                               `\u009b31m`, // CSI in one character
		"\x9b31m\xc3":                             `\x9b31m\xc3`,
		"a\u202eb\u2066\ufeff":                    `a\u202eb\u2066\ufeff`, "\U000e0041": `\udb40\udc41`,
		"\ufffd\x80": "\ufffd" + `\x80`, "\u2028": `\u2028`,
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got := OneLine(errors.New("x" + text + "y")); strings.ContainsAny(got, "\x1b\r\n\u009b") {
			t.Errorf("%q", got)
		}
	}
	var out strings.Builder
	e := &Env{Out: &out}
	if err := errors.Join(e.Print(false, nil, "%s", "\x1b]0;x\a"),
		e.Print(true, "\u009b\x7f<", "")); err != nil ||
		out.String() != `\u001b]0;x\u0007`+"\n"+`"\u009b\u007f\u003c"`+"\n" {
		t.Errorf("%q, %v", &out, err)
	}
}
