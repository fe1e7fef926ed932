package debug

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/flight"
)

// Defaults of Dumps.
const (
	defaultKeep  = 8
	defaultEvery = 10 * time.Second
	checkEvery   = time.Second
)

// Dumps says when the records of all loops are written to a file. The zero value: never. Loops must
// record, see Config.Record.
type Dumps struct {
	// Dir is the folder of the files. Default: the working directory.
	Dir string
	// Signals make a dump, each time that one of them comes.
	Signals []os.Signal
	// Codes make a dump when calls of a loop ended with one of them, at either side. The counters
	// are looked at each second.
	Codes []erpc.Code
	// Every is the least time between two dumps for Codes. Default: 10 s.
	Every time.Duration
	// Keep is how many files there are at most: the oldest one of this process goes. Default: 8.
	Keep int
	// Told is called with the name of each file that was written, or the error. Default: nothing.
	Told func(file string, err error)
}

// dumper writes dumps.
type dumper struct {
	Dumps
	socket  *Socket
	signals chan os.Signal
	tick    <-chan time.Time // when to look at the counters; nil: never
	stop    chan struct{}
	ended   sync.WaitGroup
	seen    uint64    // calls that ended with one of Codes
	last    time.Time // of a dump for Codes
	files   []string
	made    int // files so far
}

// startDumper returns nil if nothing makes a dump.
func startDumper(s *Socket, cfg Dumps) (*dumper, error) {
	if len(cfg.Signals)+len(cfg.Codes) == 0 {
		return nil, nil
	}
	if s.cfg.Record <= 0 {
		return nil, errors.New("debug: Config.Dumps is in vain without Config.Record")
	}
	if cfg.Keep <= 0 {
		cfg.Keep = defaultKeep
	}
	if cfg.Every <= 0 {
		cfg.Every = defaultEvery
	}
	if cfg.Told == nil {
		cfg.Told = func(string, error) {}
	}
	d := &dumper{Dumps: cfg, socket: s, signals: make(chan os.Signal, 1),
		stop: make(chan struct{})}
	if len(cfg.Signals) > 0 {
		signal.Notify(d.signals, cfg.Signals...)
	}
	var ticker *time.Ticker
	if len(cfg.Codes) > 0 {
		ticker = time.NewTicker(checkEvery)
		d.tick = ticker.C
		d.seen = d.count()
	}
	d.ended.Go(func() {
		d.run()
		if ticker != nil {
			ticker.Stop()
		}
	})
	return d, nil
}

// end stops the dumper and waits for it.
func (d *dumper) end() {
	signal.Stop(d.signals)
	close(d.stop)
	d.ended.Wait()
}

func (d *dumper) run() {
	for {
		select {
		case <-d.stop:
			return
		case sig := <-d.signals:
			d.Told(d.dump(time.Now(), sig.String()))
		case now := <-d.tick:
			d.check(now)
		}
	}
}

// check dumps if calls have failed since the last check.
func (d *dumper) check(now time.Time) {
	n := d.count()
	failed := n > d.seen
	if !failed || !d.last.IsZero() && now.Sub(d.last) < d.Every {
		return // they stay unseen, so that the next look in time finds them
	}
	d.seen, d.last = n, now
	d.Told(d.dump(now, "error"))
}

// count returns how many calls ended with one of Codes.
func (d *dumper) count() (n uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), d.socket.cfg.Timeout)
	defer cancel()
	for _, s := range erpc.Snapshots(ctx, erpc.SnapshotOptions{}, d.socket.watched...) {
		for _, t := range s.Types {
			for _, c := range []*erpc.CallStats{t.Client, t.Server} {
				for _, code := range d.Codes {
					if c != nil && int(code) < erpc.NumCodes {
						n += c.Ended[code]
					}
				}
			}
		}
	}
	return n
}

// dump writes a file and removes the oldest one beyond Keep.
func (d *dumper) dump(now time.Time, why string) (name string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.socket.cfg.Timeout)
	defer cancel()
	dumps := d.socket.Flight(ctx)
	d.made++
	name = filepath.Join(d.Dir, fmt.Sprintf("erpc-%d-%s-%d.flight", os.Getpid(),
		now.UTC().Format("20060102T150405"), d.made))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return name, fmt.Errorf("debug: dump for %s: %w", why, err)
	}
	d.files = append(d.files, name)
	if len(d.files) > d.Keep {
		_ = os.Remove(d.files[0]) // or somebody else did
		d.files = d.files[1:]
	}
	return name, errors.Join(flight.Write(f, dumps...), f.Close())
}
