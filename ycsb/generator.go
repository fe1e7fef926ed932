package ycsb

import "math/rand/v2"

// Request is an operation that a Generator has drawn.
type Request struct {
	Op     Op
	Record int64 // of an Insert: taken from the Keyspace
	Field  int   // of Update and ReadModifyWrite
	Count  int   // of Scan
}

// Generator draws the requests of one client. It is not safe for use by several goroutines.
type Generator struct {
	workload Workload
	keys     *Keyspace
	fields   int
	rand     *rand.Rand
	hashed   *Zipf
	newest   *Zipf
}

// NewGenerator returns a Generator of records with so many fields. Two with the same seed and id
// draw the same, as long as the Keyspace is the same. The error matches ErrWorkload.
func NewGenerator(w Workload, keys *Keyspace, fields int, seed, id uint64) (*Generator, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	return &Generator{
		workload: w, keys: keys, fields: max(fields, 1), rand: rand.New(rand.NewPCG(seed, id)),
		hashed: NewZipf(hashedRanks), newest: NewZipf(keys.Len()),
	}, nil
}

// Next draws a request.
func (g *Generator) Next() Request {
	r := Request{Op: g.op()}
	if r.Op == Insert {
		r.Record = g.keys.Take()
		return r
	}
	r.Record = g.record()
	switch r.Op {
	case Update, ReadModifyWrite:
		r.Field = g.rand.IntN(g.fields)
	case Scan:
		r.Count = 1 + g.rand.IntN(g.workload.MaxScan)
	}
	return r
}

func (g *Generator) op() Op {
	u := g.rand.Float64()
	last := Op(0)
	for op, share := range g.workload.Shares {
		if share == 0 {
			continue
		}
		if last = Op(op); u < share {
			break
		}
		u -= share
	}
	return last // also when rounding left something of u
}

// record draws until it meets one that is there. Record 0 was loaded, so there is one.
func (g *Generator) record() int64 {
	for {
		n := int64(0)
		switch there := g.keys.Len(); g.workload.Request {
		case Uniform:
			n = g.rand.Int64N(there)
		case Zipfian:
			n = scramble(g.hashed.Next(g.rand), g.keys.capacity)
		case Latest:
			g.newest.Resize(there)
			n = there - g.newest.Next(g.rand)
		}
		if g.keys.known(n) {
			return n
		}
	}
}
