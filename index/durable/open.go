package durable

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/userspace-rpc/erpc/kit/filelock"
)

const (
	logPrefix  = "log-"
	basePrefix = "base-"
	lockName   = "lock"
)

// openFolder opens a folder of the system.
func openFolder[V uint64 | []byte](path string, s *Store[V], cfg Config) (*Store[V], error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is a file, not a folder", ErrForeign, path)
	}
	if err := makeDir(path); err != nil {
		return nil, err
	}
	if _, err := survey(folder(path)); err != nil { // before anything is made there
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	lock, err := filelock.Take(filepath.Join(path, lockName))
	if held, ok := errors.AsType[*filelock.HeldError](err); ok {
		return nil, fmt.Errorf("%w: %s, by %s: end that process, or name another folder", ErrInUse,
			path, held.Holder)
	}
	if err != nil {
		return nil, err
	}
	if err := s.open(folder(path), cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), lock.Release())
	}
	s.lock = lock
	return s, nil
}

// found is a file of a folder.
type found struct {
	name string
	id   identity // n and role
	new  bool     // it is not complete
}

// survey lists the files of a folder. The error is ErrForeign, or one of the system.
func survey(on disk) (list []found, err error) {
	names, err := on.list()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if name == lockName || name == "lost+found" {
			continue
		}
		f := found{name: name}
		rest, isLog := strings.CutPrefix(name, logPrefix)
		if f.id.role = logFile; !isLog {
			rest, _ = strings.CutPrefix(name, basePrefix)
			f.id.role = baseFile
		}
		rest, f.new = strings.CutSuffix(rest, newName)
		f.id.n, err = strconv.ParseUint(rest, 10, 63)
		if full := f.id.name(); err != nil || name != full && name != full+newName {
			return nil, fmt.Errorf("%w: it has %q: name an empty folder, or that of an index",
				ErrForeign, name)
		}
		list = append(list, f)
	}
	return list, nil
}

// open reads a folder and begins to write.
func (s *Store[V]) open(on disk, cfg Config) error {
	if cfg.size == 0 {
		cfg.size = logSize
	}
	if cfg.block == 0 {
		cfg.block = blockSize
	}
	s.Log = &Log{on: on, cfg: cfg}
	list, err := survey(on)
	if err != nil {
		return err
	}
	base, logs, err := choose(list)
	if err != nil {
		return err
	}
	id := identity{kind: s.values.kind}
	w := &s.writer
	switch {
	case base == nil && len(logs) == 0:
		err = s.begin(&id)
	case s.m.Len() > 0:
		err = fmt.Errorf("%w: it has an index already, and this one begins with %d keys", ErrForeign,
			s.m.Len())
	default:
		err = s.recover(&id, base, logs)
	}
	if err == nil && w.log == nil {
		id.role, id.n = logFile, 1
		if w.log, err = newSink(on, id); err == nil {
			err = w.log.installLog()
		}
	}
	if err == nil {
		n := uint64(0)
		if base != nil {
			n = base.n
		}
		err = s.clean(n, true)
	}
	if err != nil {
		if w.log != nil {
			err = errors.Join(err, w.log.close())
		}
		return err
	}
	s.base = func(n uint64, stop func() bool) (int64, error) {
		id := id
		id.n = n
		return s.writeBase(id, stop)
	}
	s.start()
	return nil
}

// begin begins an index with what the map has.
func (s *Store[V]) begin(id *identity) (err error) {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	id.index = binary.LittleEndian.Uint64(b[:])
	if s.m.Len() > 0 {
		s.writer.base, err = s.writeBase(*id, func() bool { return false })
	}
	return err
}

// choose returns the base to begin with, nil if there is none, and the numbers of the logs behind
// it. The error is ErrDamaged.
func choose(list []found) (base *identity, logs []uint64, err error) {
	first, last := uint64(1), uint64(0)
	there := map[uint64]bool{}
	for _, f := range list {
		switch {
		case f.new:
		case f.id.role == logFile:
			there[f.id.n] = true
			last = max(last, f.id.n)
		case base == nil || f.id.n > base.n:
			base = &f.id
			first = f.id.n + 1
		}
	}
	if base != nil && base.n > 0 { // its log came before it
		last = max(last, first)
	}
	for n := first; n <= last; n++ {
		if !there[n] {
			return nil, nil, fmt.Errorf("%w: %s%d is missing", ErrDamaged, logPrefix, n)
		}
		logs = append(logs, n)
	}
	return base, logs, nil
}

// recover fills the map, and leaves the last log open.
func (s *Store[V]) recover(id *identity, base *identity, logs []uint64) error {
	w := &s.writer
	if base != nil {
		id.n, id.role = base.n, baseFile
		size, err := s.read(id, false)
		if err != nil {
			return err
		}
		w.base = size
	}
	for i, n := range logs {
		id.n, id.role = n, logFile
		size, err := s.read(id, i == len(logs)-1)
		if err != nil {
			return err
		}
		if i < len(logs)-1 {
			w.behind += size
		}
	}
	return nil
}

// read reads a file. The last log is copied, up to its end, and the copy takes its place and is
// left open. An identity without an index gets that of the file.
func (s *Store[V]) read(id *identity, end bool) (size int64, err error) {
	f, size, err := s.on.read(id.name())
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := &reader{in: bufio.NewReaderSize(f, 1<<16), left: size}
	err = r.head(id)
	if err == nil && end {
		r.copy, err = newSink(s.on, *id)
	}
	if err == nil {
		err = r.frames(*id, s.replay)
	}
	if err == nil && end && !r.complete {
		err = r.torn(*id)
	} else if err == nil && (!r.complete || r.left > 0) {
		err = fmt.Errorf("%w: bad at byte %d of %d", ErrDamaged, r.at, size)
	}
	if err == nil && end {
		if r.left > 0 {
			s.say(fmt.Errorf("durable: the last %d bytes of %s were not whole: they are cut off", r.left,
				id.name()))
		}
		err = r.copy.installLog()
	}
	if err != nil {
		if r.copy != nil {
			err = errors.Join(err, r.copy.discard())
		}
		return 0, fmt.Errorf("%s: %w", id.name(), err)
	}
	s.writer.log = r.copy
	return size, nil
}

// reader reads a file.
type reader struct {
	in       *bufio.Reader
	at, left int64 // where it is, and bytes from there on
	complete bool  // the last frame has come
	copy     *sink // of what was read; may be nil
}

// full reads so many bytes. What the system says to be the end of the file is not.
func (r *reader) full(b []byte) error {
	_, err := io.ReadFull(r.in, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("%w: it ends early", ErrDamaged)
	}
	return err
}

// head reads the header.
func (r *reader) head(want *identity) error {
	b := make([]byte, min(headSize, r.left))
	if err := r.full(b); err != nil {
		return err
	}
	id, err := parseHead(b)
	if want.index == 0 {
		want.index = id.index
	}
	switch {
	case err != nil:
		return err
	case id.kind != want.kind:
		return fmt.Errorf("%w: values are of kind %d, not %d", ErrForeign, id.kind, want.kind)
	case id.index != want.index:
		return fmt.Errorf("%w: the file is of another index", ErrForeign)
	case id != *want:
		return fmt.Errorf("%w: the file was %s", ErrDamaged, id.name())
	}
	r.at, r.left = headSize, r.left-headSize
	return nil
}

// frames reads frames up to the last one, or up to a bad one.
func (r *reader) frames(id identity, take func([]byte) error) error {
	var b []byte
	for r.left >= frameSize && !r.complete {
		head, err := r.in.Peek(frameSize)
		if err != nil {
			return r.full(make([]byte, frameSize))
		}
		h, ok := id.frameHead(head, r.at)
		size := frameSize + padded(h.size)
		if !ok || size > r.left {
			return nil
		}
		b = append(b[:0], make([]byte, size)...)
		if err := r.full(b); err != nil {
			return err
		}
		if !h.whole(b[frameSize:]) {
			r.in = bufio.NewReader(io.MultiReader(bytes.NewReader(b), r.in))
			return nil
		}
		if h.last && h.size > 0 {
			return errRecord
		}
		if err := take(b[frameSize:][:h.size]); err != nil {
			return err
		}
		r.at, r.left, r.complete = r.at+size, r.left-size, h.last
		if r.copy != nil && !h.last {
			if err := r.copy.write(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// torn looks behind a bad frame for one that says that it was synced. The error is ErrDamaged.
func (r *reader) torn(id identity) error {
	rest, err := io.ReadAll(r.in)
	if err != nil {
		return err
	}
	for i := 0; i+frameSize <= len(rest); i += 8 {
		h, ok := id.frameHead(rest[i:], r.at+int64(i))
		if ok && h.synced > r.at {
			return fmt.Errorf("%w: bad at byte %d, and %d were synced", ErrDamaged, r.at, h.synced)
		}
	}
	return nil
}
