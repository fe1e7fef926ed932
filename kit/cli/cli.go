package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit statuses.
const (
	Done   = 0
	Failed = 1
	Usage  = 2
)

// Env holds the context and the streams of a subcommand.
type Env struct {
	Ctx context.Context // ends with Ctrl-C, and with the subcommand
	In  io.Reader
	Out io.Writer // results only
	Err io.Writer // progress, logs, errors: any goroutine's
}

// Print prints a result: v as JSON, or text and a newline. Either is [Visible].
func (e *Env) Print(asJSON bool, v any, text string, args ...any) error {
	text = fmt.Sprintf(text, args...)
	if asJSON {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		text = string(b)
	}
	_, err := fmt.Fprintln(e.Out, Visible(text))
	return err
}

// UsageError is a mistake in the command line.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return UsageError(fmt.Sprintf(format, args...)) }

// OneLine returns the text of an error in one line, without the library's name in front. It is
// [Visible], since a peer may have chosen it.
func OneLine(err error) string {
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	return Visible(strings.TrimPrefix(text, "erpc: "))
}

// App is a command.
type App struct {
	Name        string
	Description string        // one line
	Options     []kong.Option // further ones, such as kong.Vars
}

// Main runs the process's command line. Run is as in App.Run, and ends the process with the status
// that it returns.
func Main(run func(e *Env, args []string) (status int)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(&Env{ctx, os.Stdin, os.Stdout, os.Stderr}, os.Args[1:])
	stop()
	os.Exit(status)
}

// helped is panicked with by kong's exit hook after --help or --version has been printed.
type helped int

// Run parses a command line into grammar, a pointer to a struct as kong wants it, and calls run
// with what was parsed. Without arguments it prints the help. It returns the exit status, after a
// line on e.Err if that is not Done. Run gets an Env whose context ends when it returns; goroutines
// that go on then write no more to e.Err.
func (a App) Run(
	e *Env, grammar any, args []string, run func(*Env, *kong.Context) error,
) (status int) {
	log := &lines{to: e.Err}
	defer log.end()
	ctx, cancel := context.WithCancel(e.Ctx)
	defer cancel()
	return a.run(&Env{Ctx: ctx, In: e.In, Out: e.Out, Err: log}, grammar, args, run)
}

func (a App) run(
	e *Env, grammar any, args []string, run func(*Env, *kong.Context) error,
) (status int) {
	defer func() {
		if p := recover(); p != nil {
			h, ok := p.(helped)
			if !ok {
				panic(p)
			}
			status = int(h)
		}
	}()
	options := append([]kong.Option{
		kong.Name(a.Name), kong.Description(a.Description), kong.Writers(e.Out, e.Err),
		kong.Exit(func(code int) { panic(helped(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Bind(e), // for hooks of flags
	}, a.Options...)
	parser, err := kong.New(grammar, options...)
	if err != nil {
		return a.fail(e, err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if i := negative(args); err != nil && i >= 0 {
		again, other := parser.Parse(slices.Insert(slices.Clone(args), i, "--"))
		if parsed = again; other == nil {
			err = nil
		}
	}
	if err != nil {
		fmt.Fprintf(e.Err, "%s: %s; see %s --help\n", a.Name, OneLine(err), a.where(err))
		return Usage
	}
	if err = nothing(parsed); err == nil {
		err = run(e, parsed)
	}
	if err != nil {
		var u UsageError
		if node := parsed.Selected(); errors.As(err, &u) && node != nil {
			fmt.Fprintf(e.Err, "%s: %s; see %s --help\n", a.Name, OneLine(err), node.FullPath())
			return Usage
		}
		return a.fail(e, err)
	}
	return Done
}

// nothing returns an error for a flag that was given the empty text, as by a variable that is not
// set: the command would run as without the flag, with no log say, or no keys. Those with the tag
// empty may have it.
func nothing(parsed *kong.Context) error {
	for _, p := range parsed.Path {
		if f := p.Flag; f != nil && f.Target.Kind() == reflect.String && f.Target.Len() == 0 &&
			!f.Tag.Has("empty") {
			return Usagef("--%s: nothing is behind it", f.Name)
		}
	}
	return nil
}

// negative returns the place of the first argument that is a negative number or a time, if nothing
// but such ones and words is behind it; else -1. It is taken for flags, unless -- precedes it. A
// flag behind it would be taken for a word then.
func negative(args []string) int {
	first := slices.IndexFunc(args, isNegative)
	if first >= 0 && slices.ContainsFunc(args[first:], func(s string) bool {
		return strings.HasPrefix(s, "-") && !isNegative(s)
	}) {
		return -1
	}
	return first
}

func isNegative(s string) bool { return len(s) > 1 && s[0] == '-' && s[1] >= '0' && s[1] <= '9' }

// where returns the command whose help says more about a line that cannot be parsed.
func (a App) where(err error) string {
	var bad *kong.ParseError
	if errors.As(err, &bad) && bad.Context != nil {
		if node := bad.Context.Selected(); node != nil {
			return node.FullPath()
		}
		for i := len(bad.Context.Path) - 1; i >= 0; i-- { // a command that has subcommands
			if node := bad.Context.Path[i].Command; node != nil {
				return node.FullPath()
			}
		}
	}
	return a.Name
}

// fail prints one line and returns the exit status that err stands for.
func (a App) fail(e *Env, err error) int {
	fmt.Fprintf(e.Err, "%s: %s\n", a.Name, OneLine(err))
	if cure := Cure(err); cure != "" {
		fmt.Fprintln(e.Err, cure)
	}
	var u UsageError
	if errors.As(err, &u) {
		return Usage
	}
	return Failed
}
