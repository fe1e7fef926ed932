package measure

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/outfile"
)

// CallCmd is the subcommand call.
type CallCmd struct {
	NetFlags `group:"net"`
	Addr     string        `arg:"" help:"Server, HOST:PORT."`
	Method   string        `arg:"" name:"type" help:"Request type, 0 to ${maxtype}."`
	Body     string        `arg:"" optional:"" help:"Request; @FILE is a file, - standard input."`
	Form     string        `short:"f" default:"text" enum:"text,hex,json" help:"${enum}; ${default}."`
	Timeout  time.Duration `short:"W" default:"5s" help:"Deadline of the call; ${default}."`
	Steps    bool          `help:"Show on standard error how long each step took."`
	Output   string        `short:"o" help:"Write the response as it is to a file." placeholder:"FILE"`
}

// Help is shown by --help.
func (CallCmd) Help() string {
	return `Examples:
  erpc call 127.0.0.1:31850 1 hello                      type 1 of erpc server echoes
  erpc call 127.0.0.1:31850 1 --form json '{"id": 7}'    JSON, checked before it is sent
  erpc call 127.0.0.1:31850 2 --form hex 00100000 --steps
  erpc call 127.0.0.1:31850 1 @request.bin -o response.bin

--form says how request and response are written; a response that is no text comes as hex, and
characters in it that a terminal would obey as \u001b. --output writes it as it is. Methods
of protobuf services, /package.Service/Method, are called by erpc-grpc, in grpcerpc/cmd.
With --json the response is in base64.`
}

// callResult has the fields that call prints with --json.
type callResult struct {
	Call     string           `json:"call"`
	Type     uint8            `json:"type"`
	Response []byte           `json:"response"`
	Took     float64          `json:"took_us"`
	Steps    map[string]int64 `json:"steps_ns,omitempty"` // since the call was made
}

// Run implements the subcommand.
func (c *CallCmd) Run(e *Env) error {
	if strings.Contains(c.Method, "/") {
		return cli.Usagef("%s is a method of a protobuf service: erpc-grpc call %s %[1]s calls it; "+
			"see grpcerpc/cmd/erpc-grpc", c.Method, c.Addr)
	}
	typ, err := strconv.ParseUint(c.Method, 10, 8)
	if err != nil || typ > erpc.MaxReqType {
		return cli.Usagef("type %s: want a number from 0 to %d", c.Method, erpc.MaxReqType)
	}
	if err := errors.Join(c.Check(), c.medium().checkAddr("address", c.Addr)); err != nil {
		return err
	}
	if c.Timeout <= 0 {
		return cli.Usagef("--timeout %v: must be more than 0", c.Timeout)
	}
	body, err := c.body(e.In)
	if err != nil {
		return err
	}
	if err := c.startCapture(e); err != nil {
		return err
	}
	c.tune(1)
	ctx, cancel := context.WithTimeout(e.Ctx, c.Timeout)
	defer cancel()
	local, err := c.Near(c.Addr)
	if err != nil {
		return err
	}
	tr, err := c.Listen(local)
	if err != nil {
		return err
	}
	cl, err := erpc.Dial(ctx, tr, c.Addr, c.Config())
	if err != nil {
		return err
	}
	var steps erpc.CallTrace
	resp, err := cl.Call(erpc.WithCallTrace(ctx, &steps), uint8(typ), body)
	if err != nil {
		return errors.Join(err, cl.Close())
	}
	return errors.Join(cl.Close(), c.show(e, uint8(typ), resp, &steps))
}

// body returns the request.
func (c *CallCmd) body(in io.Reader) (b []byte, err error) {
	switch {
	case c.Body == "-":
		b, err = io.ReadAll(io.LimitReader(in, maxMessage+1))
	case strings.HasPrefix(c.Body, "@"):
		b, err = os.ReadFile(c.Body[1:])
	default:
		b = []byte(c.Body)
	}
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxMessage:
		return nil, fmt.Errorf("the request has %d bytes, must have at most %d", len(b), maxMessage)
	case c.Form == "hex":
		text := strings.Join(strings.Fields(string(b)), "")
		if b, err = hex.DecodeString(text); err != nil {
			return nil, cli.Usagef("--form hex: %v", err)
		}
	case c.Form == "json":
		if !json.Valid(b) {
			return nil, cli.Usagef("--form json: the request is no JSON: mend it, or use another --form")
		}
	}
	return b, nil
}

// show prints the response.
func (c *CallCmd) show(e *Env, typ uint8, resp []byte, s *erpc.CallTrace) error {
	steps := map[string]int64{}
	for _, step := range stepsOf(s) {
		steps[step.name] = step.after.Nanoseconds()
		if c.Steps && !c.JSON {
			fmt.Fprintf(e.Err, "%-16s %10.1f us\n", step.name, float64(step.after)/1e3)
		}
	}
	if c.Output != "" {
		if err := outfile.Write(c.Output, resp, 0o600); err != nil {
			return err
		}
		resp = nil
	}
	var text string
	var indented bytes.Buffer
	switch {
	case c.JSON:
		took := float64(s.Ended.Sub(s.Called)) / 1e3
		return json.NewEncoder(e.Out).Encode(callResult{c.Addr, typ, resp, took, steps})
	case c.Output != "":
		return nil
	case c.Form == "json" && json.Indent(&indented, resp, "", "  ") == nil:
		text = indented.String()
	case c.Form != "hex" && utf8.Valid(resp) && !bytes.ContainsRune(resp, 0):
		text = string(resp)
	default:
		text = strings.TrimSuffix(hex.Dump(resp), "\n")
	}
	return e.Print(false, nil, "%s", text)
}

// step is a step of a call, and how long after the call it was.
type step struct {
	name  string
	after time.Duration
}

// stepsOf lists the steps that a call took.
func stepsOf(s *erpc.CallTrace) (list []step) {
	for _, at := range []struct {
		name string
		at   erpc.Time
	}{{"enqueued", s.Enqueued}, {"sent", s.Sent}, {"answered", s.Answered}, {"ended", s.Ended}} {
		if at.at != 0 {
			list = append(list, step{at.name, at.at.Sub(s.Called)})
		}
	}
	if s.Unloaded > 0 {
		list = append(list, step{"of it network", s.Unloaded})
	}
	return list
}
