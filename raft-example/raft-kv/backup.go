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
	"path/filepath"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/raft-example/wal"
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
	File string `arg:"" help:"The file to write; there must be none yet."`
}

// Help is shown by --help.
func (backupCmd) Help() string {
	return `The file has all that was acknowledged before the command began: keys, and clients'
sessions. The cluster serves meanwhile. --timeout is for each step.

Examples:
  raft-kv backup store.bak`
}

// Run implements the subcommand.
func (c *backupCmd) Run(e *cli.Env) error {
	if _, err := os.Stat(c.File); err == nil {
		return fmt.Errorf("backup %s: %w", c.File, fs.ErrExist)
	}
	b, err := c.dial()
	if err != nil {
		return err
	}
	defer b.Close()
	var last error
	for _, addr := range strings.Split(c.Servers, ",") {
		p, err := c.from(e.Ctx, b, addr)
		if err == nil {
			return e.Print(c.JSON, struct {
				Index uint64 `json:"index"` // of the last entry that it has
				Size  uint64 `json:"bytes"`
			}{p.Index, p.Total}, "%s has the state up to entry %d, %d bytes", c.File, p.Index, p.Total)
		}
		last = fmt.Errorf("backup from %s: %w", addr, err)
		if e.Ctx.Err() != nil || erpc.CodeOf(err) == erpc.CodeFailedPrecondition ||
			errors.Is(err, errNoAdmin) {
			break
		}
	}
	return last
}

// from writes the file from what one replica has.
func (c *backupCmd) from(ctx context.Context, b *client.Blocking, addr string) (
	last node.BackupPiece, err error,
) {
	f, err := os.CreateTemp(filepath.Dir(c.File), filepath.Base(c.File)+".*")
	if err != nil {
		return last, err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err == nil {
			err = wal.Move(f.Name(), c.File)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
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
			return last, errors.Join(err, seal(f, sum))
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

// parseBackup reads a backup; the snapshot is a part of b. The error is errBackup.
func parseBackup(b []byte) (*pb.Snapshot, error) {
	if len(b) < backupHead+sha256.Size || binary.LittleEndian.Uint64(b) != backupMagic {
		return nil, errBackup
	}
	if v := binary.LittleEndian.Uint64(b[8:]); v != backupVersion {
		return nil, fmt.Errorf("version %d of backups, this program knows %d: take a newer one", v,
			backupVersion)
	}
	body, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) ||
		binary.LittleEndian.Uint64(b[40:]) != uint64(len(body)-backupHead) {
		return nil, errBackup
	}
	return &pb.Snapshot{Data: body[backupHead:], Metadata: &pb.SnapshotMetadata{
		Index: new(binary.LittleEndian.Uint64(b[24:])),
		Term:  new(binary.LittleEndian.Uint64(b[32:]))}}, nil
}

type restoreCmd struct {
	File string `arg:"" help:"The backup."`
	ID   uint64 `default:"1" help:"The number of the new cluster's first replica; default ${default}." placeholder:"N"`
	foundFlags
}

// Help is shown by --help.
func (restoreCmd) Help() string {
	return `The new cluster has one member, and an id of its own.

Examples:
  raft-kv restore store.bak --addr 10.0.0.1:31850 --dir /var/lib/raft-kv`
}

// Run implements the subcommand.
func (c *restoreCmd) Run(e *cli.Env) error {
	if err := c.check(c.ID); err != nil {
		return err
	}
	b, err := os.ReadFile(c.File)
	var s replica.Start
	if err == nil {
		if s.Snapshot, err = parseBackup(b); err == nil {
			s, err = replica.Recover(s, map[uint64]string{c.ID: c.Addr})
		}
	}
	if err == nil {
		err = node.Found(c.Dir, c.NewCluster, c.ID, s)
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", c.File, err)
	}
	return c.print(e, c.ID, &s)
}
