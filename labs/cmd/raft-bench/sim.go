package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/labs/raft/simlab"
)

type simCmd struct {
	Trips    []time.Duration `help:"Round trips; 2.3us to 20us." placeholder:"TIME"`
	Raft     time.Duration   `help:"Raft's work for a PUT; two models." placeholder:"TIME"`
	Replicas int             `default:"3" help:"Replicas; ${default}." placeholder:"N"`
	Keys     int             `default:"1000000" help:"Keys; ${default}." placeholder:"N"`
	Requests int             `default:"1000" help:"Of each kind; ${default}." placeholder:"N"`
	Seed     uint64          `default:"1" help:"Random seed; ${default}." placeholder:"N"`
	JSON     bool            `name:"json" help:"Print one JSON object."`
}

// Help is shown by --help.
func (simCmd) Help() string {
	return `The store as it is, on virtual cores: one for each replica, one for the client. Time is
virtual, and the same seed gives the same figures. "2 RPC + Raft" is the arithmetic to compare with.
--raft is divided among its four steps: propose, append, count, answer.

Examples:
  raft-bench sim
  raft-bench sim --raft 4us --trips 2.3us,7us,20us`
}

// simRow is a row of the table.
type simRow struct {
	Model string        `json:"service_times"`
	Raft  time.Duration `json:"raft_ns"`
	Trip  time.Duration `json:"round_trip_ns"`
	*simlab.Point
}

// models are those that are asked for.
func (c *simCmd) models() []simlab.Model {
	if c.Raft == 0 {
		return []simlab.Model{simlab.Paper, simlab.Here}
	}
	m := simlab.Here
	m.Name, m.Propose, m.Append, m.Ack = "given", c.Raft/4, c.Raft/4, c.Raft/4
	m.Answer = c.Raft - 3*(c.Raft/4)
	return []simlab.Model{m}
}

// Run implements the subcommand.
func (c *simCmd) Run(e *cli.Env) error {
	if c.Raft < 0 || c.Raft > time.Millisecond || c.Requests > 100_000 {
		return cli.Usagef("--raft %v, --requests %d: want 0 to 1ms, 1 to 100000", c.Raft, c.Requests)
	}
	trips := c.Trips
	if len(trips) == 0 {
		trips = simlab.Trips
	}
	var rows []simRow
	for _, m := range c.models() {
		for _, trip := range trips {
			p, err := simlab.Run(e.Ctx, simlab.Config{Model: m, RoundTrip: trip, Replicas: c.Replicas,
				Keys: c.Keys, Requests: c.Requests, Seed: c.Seed})
			if errors.Is(err, simlab.ErrConfig) {
				return cli.Usagef("%v", err)
			}
			if err != nil {
				return err
			}
			rows = append(rows, simRow{m.Name, m.Raft(), trip, p})
		}
	}
	if c.JSON {
		return json.NewEncoder(e.Out).Encode(struct {
			Rows []simRow `json:"rows"`
		}{rows})
	}
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d replicas, a core each\tRaft's work\tplain RPC\tPUT p50\tp99\tGET\t"+
		"PUT / RPC\t2 RPC + Raft\tdifference\n", c.Replicas)
	for _, r := range rows {
		us := func(d time.Duration) float64 { return float64(d) / 1e3 }
		fmt.Fprintf(w, "%s\t%.1f us\t%.1f us\t%.1f us\t%.1f us\t%.1f us\t%.2f\t%.2f\t%+.1f %%\n",
			r.Model, us(r.Raft), us(r.Plain.P50), us(r.Put.P50), us(r.Put.P99), us(r.Get.P50),
			r.Ratio, r.Expected, 100*(r.Ratio/r.Expected-1))
	}
	return w.Flush()
}
