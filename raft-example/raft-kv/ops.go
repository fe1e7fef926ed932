package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// with runs do with a client. When time is up the error says which servers were asked, and for how
// long.
func (f *clientFlags) with(
	e *cli.Env, do func(ctx context.Context, c *client.Blocking) error,
) error {
	c, err := f.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(e.Ctx, f.Timeout)
	defer cancel()
	if err = do(ctx, c); err == nil {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = f.remember(short)
	}
	switch {
	case errors.Is(err, kv.ErrTooLarge):
		return cli.UsageError(cli.OneLine(err))
	case errors.Is(err, kv.ErrWrongCluster):
		return fmt.Errorf("--cluster %d is not the id that the members of --servers have: %w",
			f.netFlags.Cluster, err)
	case errors.Is(err, erpc.ErrInsecure) && f.PSKFile == "" && f.TLSCert == "" && f.TLSCA == "":
		return fmt.Errorf("the servers encrypt: give --psk-file, or --tls-ca and a certificate: %w", err)
	case errors.Is(err, erpc.ErrInsecure):
		return fmt.Errorf("the servers do not encrypt, and a key or a certificate is given: %w", err)
	case errors.Is(err, errNobody):
		return err
	case errors.Is(err, client.ErrDeadline):
		return fmt.Errorf("--servers %s, --timeout %v: %w; raft-kv status says who answers and leads",
			f.Servers, f.Timeout, err)
	}
	return err
}

// outcome is the output of put, get, delete and cas with --json.
type outcome struct {
	Key   string  `json:"key"`
	Found bool    `json:"found"`
	Done  bool    `json:"done"`
	Value *string `json:"value,omitempty"`
}

type putCmd struct {
	clientFlags
	Key   string `arg:"" help:"1 to 16 bytes."`
	Value string `arg:"" help:"At most 64 bytes."`
}

// Run implements the subcommand.
func (c *putCmd) Run(e *cli.Env) error {
	return c.with(e, func(ctx context.Context, b *client.Blocking) error {
		if err := b.Put(ctx, c.Key, []byte(c.Value)); err != nil {
			return err
		}
		return e.Print(c.JSON, outcome{Key: c.Key, Found: true, Done: true, Value: &c.Value}, "ok")
	})
}

type getCmd struct {
	clientFlags
	Key      string `arg:"" help:"1 to 16 bytes."`
	Anywhere bool   `help:"Ask any replica, not the leader alone; the answer is as fresh."`
}

// Run implements the subcommand.
func (c *getCmd) Run(e *cli.Env) error {
	c.anywhere = c.Anywhere
	return c.with(e, func(ctx context.Context, b *client.Blocking) error {
		v, found, err := b.Get(ctx, c.Key)
		text := string(v)
		switch {
		case err != nil:
			return err
		case !found && c.JSON:
			return e.Print(true, outcome{Key: c.Key}, "")
		case !found:
			return fmt.Errorf("%w: %q", kv.ErrNotFound, c.Key)
		}
		return e.Print(c.JSON, outcome{Key: c.Key, Found: true, Done: true, Value: &text}, "%s", text)
	})
}

type deleteCmd struct {
	clientFlags
	Key string `arg:"" help:"1 to 16 bytes."`
}

// Run implements the subcommand.
func (c *deleteCmd) Run(e *cli.Env) error {
	return c.with(e, func(ctx context.Context, b *client.Blocking) error {
		found, err := b.Delete(ctx, c.Key)
		if err != nil {
			return err
		}
		text := "ok"
		if !found {
			text = "there was none"
		}
		return e.Print(c.JSON, outcome{Key: c.Key, Found: found, Done: found}, "%s", text)
	})
}

type casCmd struct {
	clientFlags
	Key    string `arg:"" help:"1 to 16 bytes."`
	Old    string `arg:"" help:"The value that it must have; ignored with --absent."`
	Value  string `arg:"" help:"The new value."`
	Absent bool   `help:"The key must not exist."`
}

// Run implements the subcommand.
func (c *casCmd) Run(e *cli.Env) error {
	return c.with(e, func(ctx context.Context, b *client.Blocking) error {
		old := []byte(c.Old)
		if c.Absent {
			old = nil
		}
		swapped, now, err := b.CAS(ctx, c.Key, old, []byte(c.Value))
		if err != nil {
			return err
		}
		o, text := outcome{Key: c.Key, Found: swapped || now != nil, Done: swapped}, "ok"
		if !swapped {
			if text = "no: there is no such key"; now != nil {
				value := string(now)
				o.Value, text = &value, fmt.Sprintf("no: the value is %q", now)
			}
		}
		return e.Print(c.JSON, o, "%s", text)
	})
}

// report is the answer of TypeStatus.
type report struct {
	Cluster uint64 `json:"cluster"`
	Addr    string `json:"addr"`
	Trust   string `json:"trust,omitempty"`  // by what it knows members
	Admins  string `json:"admins,omitempty"` // from whom it takes admin commands
	replica.Status
	SyncTime float64          `json:"sync_ms,omitempty"`     // of a typical write to its disk
	SyncP99  float64          `json:"sync_p99_ms,omitempty"` // one in a hundred takes longer
	Writing  float64          `json:"writing_ms,omitempty"`  // so far, the write under way
	Formats  *node.Formats    `json:"formats,omitempty"`     // that it knows; nil: 0 alone
	Peers    []node.Companion `json:"peers,omitempty"`
}

type statusCmd struct{ clientFlags }

// Run implements the subcommand.
func (c *statusCmd) Run(e *cli.Env) error {
	return c.with(e, func(ctx context.Context, b *client.Blocking) error {
		list, err := statuses(ctx, b, strings.Split(c.Servers, ","))
		if err != nil {
			return err
		}
		if c.JSON {
			return json.NewEncoder(e.Out).Encode(struct {
				Replicas []report `json:"replicas"`
			}{list})
		}
		_, err = io.WriteString(e.Out, statusText(list))
		return err
	})
}

// statusText is the table of what replicas say. Its texts are theirs.
func statusText(list []report) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "replica\taddress\tstate\tterm\tleader\tapplied\tlog\tkeys\tdurable\tversion"+
		"\tmembers")
	for _, s := range list {
		if s.ID == 0 {
			fmt.Fprintf(w, "?\t%s\t%s\n", s.Addr, s.Err)
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%d\t%d to %d\t%d\t%v\t%s\t%s\n", s.ID, s.Addr,
			strings.TrimPrefix(s.State, "State"), s.Term, s.Leader,
			s.Applied, s.First, s.Last, s.Keys, s.Durable, versionText(&s), memberText(&s.Status))
	}
	_ = w.Flush() // a Builder takes all
	said := map[string]bool{}
	for _, s := range list {
		for _, line := range []struct{ about, what string }{
			{"members are known ", s.Trust}, {"admin commands are taken ", s.Admins},
			{"the tick is ", timingText(s.Timing)},
		} {
			if line.what != "" && !said[line.about+line.what] {
				fmt.Fprintln(&text, line.about+line.what)
			}
			said[line.about+line.what] = true
		}
	}
	for _, s := range list {
		if s.Removed {
			fmt.Fprintf(&text, "replica %d is no member any more: it may stop\n", s.ID)
		}
		if s.SyncP99 > 0 {
			fmt.Fprintf(&text, "replica %d: a write to its disk takes %.2f ms, one in a hundred more than "+
				"%.2f ms\n", s.ID, s.SyncTime, s.SyncP99)
		}
		if s.Writing > max(s.SyncP99, 10) {
			fmt.Fprintf(&text, "replica %d: its disk hangs, a write has taken %.0f ms\n", s.ID, s.Writing)
		}
		for _, p := range s.Peers {
			if p.Err != "" {
				fmt.Fprintf(&text, "replica %d takes nothing of %d: %s\n", s.ID, p.ID, p.Err)
			}
			if p.Denial != "" {
				fmt.Fprintf(&text, "replica %d takes nothing of %d: %s\n", p.ID, s.ID, p.Denial)
			}
		}
	}
	return cli.Visible(text.String())
}

// timingText says the tick and the lease, and whose they are; "" if a replica does not say.
func timingText(t replica.Timing) string {
	switch {
	case t.Tick == 0:
		return ""
	case t.Agreed:
		return fmt.Sprintf("%v, the lease %v, by the log", t.Tick, t.Lease)
	}
	return fmt.Sprintf("%v, the lease %v, by --tick and --lease", t.Tick, t.Lease)
}

// versionText is the cluster's version, as a replica has it, and those that its program knows.
func versionText(s *report) string {
	if s.Formats == nil {
		return "0 of 0"
	}
	return fmt.Sprintf("%d of %d to %d", s.Version, s.Formats.Min, s.Formats.Max)
}

// memberText lists members, and says who has no vote, and who has one only while the voters change.
func memberText(s *replica.Status) string {
	var list []string
	for _, id := range slices.Sorted(maps.Keys(s.Members)) {
		text := fmt.Sprintf("%d=%s", id, s.Members[id])
		switch {
		case slices.Contains(s.Learners, id):
			text += " (learner)"
		case len(s.Outgoing) > 0 && !slices.Contains(s.Voters, id):
			text += " (leaving)"
		}
		list = append(list, text)
	}
	return strings.Join(list, ",")
}

// errNobody is an answer of none of the servers.
var errNobody = errors.New("no replica answers")

// statuses asks all servers; one that does not answer has only an error. It fails if none does.
func statuses(ctx context.Context, b *client.Blocking, servers []string,
) (list []report, err error) {
	alive := false
	var last error
	for _, addr := range servers {
		s := report{Addr: addr}
		short, cancel := context.WithTimeout(ctx, time.Second)
		body, err := b.Call(short, addr, node.TypeStatus, nil)
		cancel()
		if err == nil {
			err = json.Unmarshal(body, &s)
		}
		if err != nil {
			s.Err = cli.OneLine(err)
			if last == nil || !errors.Is(err, client.ErrDeadline) { // a refusal says more
				last = err
			}
		}
		alive = alive || err == nil
		list = append(list, s)
	}
	if !alive {
		return nil, fmt.Errorf("%w at %s: %w", errNobody, strings.Join(servers, ", "), last)
	}
	return list, nil
}

type memberCmd struct {
	clientFlags
	What string `arg:"" enum:"add,learner,remove,lead" help:"add, learner, remove or lead (make it the leader)."`
	ID   uint64 `arg:"" help:"The replica's number."`
	Addr string `arg:"" optional:"" help:"Its address, to add it."`

	Demote bool `help:"With learner: take the vote of a member that has one."`
	forceFlag
}

// forceFlag is of commands that change members.
type forceFlag struct {
	Force bool `help:"Ask no member. If most voters are not there then, nothing is written any more: see raft-kv recover."`
}

// warn says what --force risks.
func (f *forceFlag) warn(e *cli.Env) {
	if f.Force {
		fmt.Fprintln(e.Err, "--force: nobody is asked; if most voters are not there then, nothing is "+
			"written any more, and only raft-kv recover helps, which may lose writes")
	}
}

// Help is shown by --help.
func (memberCmd) Help() string {
	return `A change is refused, with the reason, if a member does not answer at its address under its
number, or if fewer than a majority of the voters would be there afterwards. A new member gets the
log before it has a vote: the command waits for that. A member that does not answer is to be removed
before another one is added. lead answers when the replica leads. learner adds a member that gets
the log and has no vote; a member that has one keeps it unless --demote takes it, and then the same
is asked as for remove.

Examples:
  raft-kv member add 4 10.0.0.4:31850
  raft-kv member remove 2
  raft-kv member lead 3`
}

// Run implements the subcommand.
func (c *memberCmd) Run(e *cli.Env) error {
	a := node.Admin{Cluster: c.netFlags.Cluster, ID: c.ID, Addr: c.Addr, Transfer: c.What == "lead",
		Force: c.Force, Demote: c.Demote}
	a.Change = map[string]replica.Change{"add": replica.Add, "learner": replica.Learner,
		"remove": replica.Remove}[c.What]
	if c.ID == 0 {
		return cli.Usagef("member %s 0: replicas are numbered from 1", c.What)
	}
	if (c.Addr == "") == (c.What == "add" || c.What == "learner") {
		return cli.Usagef("member %s: an address goes with add and learner, and only with them", c.What)
	}
	if a.Force && a.Transfer {
		return cli.Usagef("member lead: --force goes with add, learner and remove")
	}
	if c.Demote && c.What != "learner" {
		return cli.Usagef("member %s: --demote goes with learner", c.What)
	}
	if c.Addr != "" && !isAddr(c.Addr) {
		return cli.Usagef("member %s %d %q: want HOST:PORT", c.What, c.ID, c.Addr)
	}
	c.warn(e)
	return c.with(e, func(ctx context.Context, b *client.Blocking) error {
		already, err := change(ctx, b, strings.Split(c.Servers, ","), a)
		if err != nil {
			return err
		}
		text := "ok"
		switch {
		case already:
			text = "ok: it was so already"
		case c.Demote:
			text = fmt.Sprintf("ok: replica %d gets the log and has no vote", c.ID)
		}
		return e.Print(c.JSON, struct {
			Done    bool `json:"done"`
			Already bool `json:"already"`
		}{true, already}, "%s", text)
	})
}

type membersCmd struct {
	clientFlags
	List string `arg:"" help:"All voters that there shall be, as 1=HOST:PORT,2=..." placeholder:"LIST"`
	forceFlag
}

// Help is shown by --help.
func (membersCmd) Help() string {
	return `All changes take effect at once, by joint consensus. Replicas that are new must run
(raft-kv server --join); they get the log first. What raft-kv member refuses is refused here, too.

Examples:
  raft-kv members 1=10.0.0.1:31850,4=10.0.0.4:31850,5=10.0.0.5:31850`
}

// Run implements the subcommand.
func (c *membersCmd) Run(e *cli.Env) error {
	want, err := parseMembers(c.List)
	if err != nil {
		return err
	}
	c.warn(e)
	return c.with(e, func(ctx context.Context, b *client.Blocking) error {
		servers := strings.Split(c.Servers, ",")
		a := node.Admin{Cluster: c.netFlags.Cluster, Force: c.Force}
		for {
			now, err := leading(ctx, b, servers)
			if err != nil {
				return err
			}
			a.Members = changes(now, want)
			switch {
			case len(now.Outgoing) > 0: // it is not complete
			case len(a.Members) == 0:
				return e.Print(c.JSON, struct {
					Done bool `json:"done"`
				}{true}, "ok")
			default:
				if _, err := change(ctx, b, servers, a); err != nil {
					return err
				}
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%w: the change is not complete: %w", client.ErrDeadline, ctx.Err())
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

// leading returns the status of the leader.
func leading(ctx context.Context, b *client.Blocking, servers []string) (best report, err error) {
	for best.ID == 0 {
		list, err := statuses(ctx, b, servers)
		if ctx.Err() != nil {
			return best, fmt.Errorf("%w: no leader: %w", client.ErrDeadline, ctx.Err())
		}
		if err != nil {
			continue
		}
		for _, s := range list {
			if s.State == "StateLeader" && s.Term > best.Term {
				best = s
			}
			for _, addr := range s.Members { // the leader may be a new one
				if !slices.Contains(servers, addr) {
					servers = append(slices.Clone(servers), addr)
				}
			}
		}
	}
	return best, nil
}

// changes lists what makes the members those of want.
func changes(now report, want map[uint64]string) (list []replica.Member) {
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if now.Members[id] != want[id] || slices.Contains(now.Learners, id) {
			list = append(list, replica.Member{Change: replica.Add, ID: id, Addr: want[id]})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(now.Members)) {
		if _, is := want[id]; !is {
			list = append(list, replica.Member{Change: replica.Remove, ID: id})
		}
	}
	return list
}
