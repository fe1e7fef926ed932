package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	pb "go.etcd.io/raft/v3/raftpb"
)

// A backup is
//
//	0 magic u64 · 8 version u32 · 12 zero u32 · 16 cluster u64 · 24 index u64 · 32 term u64 ·
//	40 size of the state u64 · 48 the state, see node.BackupPiece · SHA-256 of all that
const (
	backupMagic   = 0x31504b4243505245 // "ERPCBKP1"
	backupVersion = 1
	backupHead    = 48
)

// errBackup is a file that is no backup, or not a whole one.
var errBackup = errors.New("not a backup, or a damaged one: take another copy of it")

type backupCmd struct {
	clientFlags
	File   string        `arg:"" help:"The file to write; there must be none yet."`
	Within time.Duration `default:"1h" help:"Time for the whole; default ${default}." placeholder:"TIME"`
}

// Help is shown by --help.
func (backupCmd) Help() string {
	return `The file has all that was acknowledged before the command began: keys, and clients'
sessions. The cluster serves meanwhile. --timeout is for each step, --within for all of them.

Examples:
  raft-kv backup store.bak`
}

// Run implements the subcommand.
func (c *backupCmd) Run(e *cli.Env) error {
	if c.Within <= 0 {
		return cli.Usagef("--within %v: want more than nothing", c.Within)
	}
	if c.File == "" {
		return cli.Usagef("backup: want the name of a file")
	}
	if err := absent(c.File); err != nil {
		return err
	}
	b, err := c.dial()
	if err != nil {
		return err
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(e.Ctx, c.Within)
	defer cancel()
	f, err := newPart(c.File)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	p, err := c.fromAny(ctx, e.Ctx, b, f)
	if err = f.end(err); err != nil {
		return err
	}
	return e.Print(c.JSON, struct {
		Index uint64 `json:"index"` // of the last entry that it has
		Size  uint64 `json:"bytes"`
	}{p.Index, p.Total}, "%s has the state up to entry %d, %d bytes", c.File, p.Index, p.Total)
}

// fromAny writes the file from what the first server has that can. Outer is ctx without the bound
// of --within.
func (c *backupCmd) fromAny(ctx, outer context.Context, b *client.Blocking, f *part) (
	last node.BackupPiece, err error,
) {
	for i, addr := range strings.Split(c.Servers, ",") {
		before := err
		if last, err = c.from(ctx, b, addr, f); err == nil {
			return last, nil
		}
		_, local := errors.AsType[*fs.PathError](err)
		over := local || ctx.Err() != nil || erpc.CodeOf(err) == erpc.CodeFailedPrecondition ||
			errors.Is(err, errNoAdmin)
		err = fmt.Errorf("backup from %s: %w", addr, err)
		if outer.Err() == nil && ctx.Err() != nil {
			err = fmt.Errorf("--within %v was too short: %w", c.Within, err)
		}
		if over {
			break
		}
		if i > 0 {
			err = fmt.Errorf("%w; %w", before, err)
		}
	}
	return last, err
}

// from writes the file from what one replica has.
func (c *backupCmd) from(ctx context.Context, b *client.Blocking, addr string, f *part) (
	last node.BackupPiece, err error,
) {
	if err = f.begin(); err != nil {
		return last, err
	}
	q := node.BackupRequest{Cluster: c.netFlags.Cluster}
	sum := sha256.New()
	w := io.MultiWriter(f, sum)
	for {
		p, err := c.piece(ctx, b, addr, &q)
		if err != nil {
			return last, err
		}
		q.Index = p.Index
		if p.Total == 0 { // it is being made
			continue
		}
		if q.Offset == 0 {
			last = p
			_, err = w.Write(headOf(c.netFlags.Cluster, &p))
		} else if p.Total != last.Total || p.Index != last.Index {
			err = node.ErrBackup
		}
		if err == nil && len(p.Data) == 0 || q.Offset+uint64(len(p.Data)) > p.Total {
			err = node.ErrBackup
		}
		if err == nil {
			_, err = w.Write(p.Data)
		}
		if err == nil && q.Offset>>22 != (q.Offset+uint64(len(p.Data)))>>22 {
			err = f.Sync() // one sync of all of it would hold up others on the same disk
		}
		if q.Offset += uint64(len(p.Data)); err != nil || q.Offset == p.Total {
			return last, errors.Join(err, seal(f.File, sum))
		}
	}
}

// piece asks for one piece.
func (c *backupCmd) piece(ctx context.Context, b *client.Blocking, addr string,
	q *node.BackupRequest) (p node.BackupPiece, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	got, err := b.Call(ctx, addr, node.TypeBackup, q.Append(nil))
	if err != nil {
		return p, adminError(err)
	}
	if p, err = node.ParseBackup(got); err == nil && p.Total == 0 && q.Index != 0 {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(changePause):
		}
	}
	return p, err
}

func headOf(cluster uint64, p *node.BackupPiece) []byte {
	b := binary.LittleEndian.AppendUint64(nil, backupMagic)
	b = binary.LittleEndian.AppendUint64(b, backupVersion)
	for _, v := range []uint64{cluster, p.Index, p.Term, p.Total} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// seal ends a backup with its checksum, and makes it durable.
func seal(f *os.File, sum hash.Hash) error {
	_, err := f.Write(sum.Sum(nil))
	return errors.Join(err, f.Sync())
}

// backupState is the state in a backup, to be read once.
type backupState struct {
	io.Reader
	size uint64
}

// Size implements replica.Source.
func (s backupState) Size() uint64 { return s.size }

// parseBackup reads a backup to its end, and returns what a replica begins with, whose state is
// read from the file once more, and the id of the cluster that it is of. The error is errBackup, or
// one of the system.
func parseBackup(f io.ReaderAt, size int64) (s replica.Start, cluster uint64, err error) {
	if size < backupHead+sha256.Size {
		return s, 0, errBackup
	}
	head := make([]byte, backupHead)
	if _, err = f.ReadAt(head, 0); err != nil {
		return s, 0, err
	}
	field := func(at int) uint64 { return binary.LittleEndian.Uint64(head[at:]) }
	if field(0) != backupMagic {
		return s, 0, errBackup
	}
	if v := field(8); v != backupVersion {
		return s, 0, fmt.Errorf("version %d of backups, this program knows %d: take a newer one", v,
			backupVersion)
	}
	sum, end := sha256.New(), size-sha256.Size
	if _, err = io.Copy(sum, io.NewSectionReader(f, 0, end)); err != nil {
		return s, 0, err
	}
	want := make([]byte, sha256.Size)
	if _, err = f.ReadAt(want, end); err != nil {
		return s, 0, err
	}
	if !bytes.Equal(sum.Sum(nil), want) || field(40) != uint64(end-backupHead) {
		return s, 0, errBackup
	}
	s.State = backupState{io.NewSectionReader(f, backupHead, end-backupHead), field(40)}
	s.Snapshot = &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(field(24)),
		Term: new(field(32))}}
	return s, field(16), nil
}

type restoreCmd struct {
	File string `arg:"" help:"The backup."`
	ID   uint64 `default:"1" help:"The number of the new cluster's first replica; default ${default}." placeholder:"N"`
	foundFlags
}

// Help is shown by --help.
func (restoreCmd) Help() string {
	return `The new cluster has one member, and another id than the old one, so that neither takes
members, clients or logs of the other for its own.

Examples:
  raft-kv restore store.bak --addr 10.0.0.1:31850 --dir /var/lib/raft-kv`
}

// Run implements the subcommand.
func (c *restoreCmd) Run(e *cli.Env) error {
	if err := c.check(c.ID); err != nil {
		return err
	}
	s, err := c.restore()
	if err != nil {
		return fmt.Errorf("restore %s: %w", c.File, err)
	}
	return c.print(e, c.ID, &s)
}

// restore makes the folder.
func (c *restoreCmd) restore() (s replica.Start, err error) {
	f, err := os.Open(c.File)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	var old uint64
	if err == nil {
		s, old, err = parseBackup(f, st.Size())
	}
	if err == nil {
		err = c.another(old)
	}
	if err == nil {
		s, err = replica.Recover(s, map[uint64]string{c.ID: c.Addr})
	}
	if err != nil {
		return s, err
	}
	return s, node.Found(c.Dir, c.NewCluster, c.ID, s)
}
