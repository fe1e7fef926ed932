package main

import (
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/kit/cli"
)

type getCmd struct {
	clientFlags
	Key string `arg:"" help:"The key, text."`
}

type putCmd struct {
	clientFlags
	Key    string `arg:"" help:"The key, text."`
	Value  uint64 `arg:"" help:"The value, a number."`
	Absent bool   `help:"Only if the key is not there."`
}

type deleteCmd struct {
	clientFlags
	Key string `arg:"" help:"The key, text."`
}

type scanCmd struct {
	clientFlags
	From  string `help:"The first key." placeholder:"KEY" empty:""`
	Count uint64 `default:"100" help:"Keys at most; default ${default}." placeholder:"N"`
}

// pair is a key and its value, as they are printed.
type pair struct {
	Key   string `json:"key"`
	Value uint64 `json:"value"`
}

var errNoKey = errors.New("no such key")

// Run implements the subcommand.
func (c *getCmd) Run(e *cli.Env) (err error) {
	x, end, err := c.dial(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	v, ok, err := x.Get(e.Ctx, []byte(c.Key))
	if err == nil && !ok {
		err = fmt.Errorf("%w: %q", errNoKey, c.Key)
	}
	if err != nil {
		return err
	}
	return e.Print(c.JSON, pair{c.Key, v}, "%d", v)
}

// before is the value that an operation found.
type before struct {
	Key    string `json:"key"`
	There  bool   `json:"there_before"`
	Before uint64 `json:"value_before"`
}

func (b before) text() string {
	if !b.There {
		return "the key was not there"
	}
	return fmt.Sprintf("the key had %d", b.Before)
}

// Run implements the subcommand.
func (c *putCmd) Run(e *cli.Env) (err error) {
	x, end, err := c.dial(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	put := x.Put
	if c.Absent {
		put = x.PutIfAbsent
	}
	old, there, err := put(e.Ctx, []byte(c.Key), c.Value)
	if err != nil {
		return err
	}
	b := before{c.Key, there, old}
	return e.Print(c.JSON, b, "%s", b.text())
}

// Run implements the subcommand.
func (c *deleteCmd) Run(e *cli.Env) (err error) {
	x, end, err := c.dial(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	old, there, err := x.Delete(e.Ctx, []byte(c.Key))
	if err != nil {
		return err
	}
	b := before{c.Key, there, old}
	return e.Print(c.JSON, b, "%s", b.text())
}

// Run implements the subcommand.
func (c *scanCmd) Run(e *cli.Env) (err error) {
	x, end, err := c.dial(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	var failed error
	_, err = x.Scan(e.Ctx, []byte(c.From), c.Count, func(key []byte, v uint64) bool {
		failed = e.Print(c.JSON, pair{string(key), v}, "%q %d", key, v)
		return failed == nil
	})
	return errors.Join(err, failed)
}
