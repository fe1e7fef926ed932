package main

import (
	"errors"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// store is an etcd of one member in this process, which can be away.
type store struct {
	cfg  *embed.Config
	etcd *embed.Etcd // nil: it is away
	addr string
	dir  string
}

// startStore starts an etcd with a folder of its own, at any free port.
func startStore() (*store, error) {
	dir, err := os.MkdirTemp("", "erpc-cluster")
	if err != nil {
		return nil, err
	}
	s := &store{cfg: embed.NewConfig(), dir: dir}
	s.cfg.Dir, s.cfg.LogLevel, s.cfg.LogOutputs = dir, "fatal", []string{"stderr"}
	free := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	s.cfg.ListenClientUrls, s.cfg.ListenPeerUrls = free, free
	if err := s.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// start brings it back, at its address.
func (s *store) start() error {
	if s.etcd != nil {
		return nil
	}
	e, err := embed.StartEtcd(s.cfg)
	if err != nil {
		return err
	}
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		e.Close()
		return errors.New("etcd does not begin within 30 s")
	}
	s.etcd, s.addr = e, e.Clients[0].Addr().String()
	s.cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: s.addr}}
	return nil
}

// stop takes it away.
func (s *store) stop() {
	if s.etcd != nil {
		s.etcd.Close()
		s.etcd = nil
	}
}

func (s *store) close() error {
	s.stop()
	return os.RemoveAll(s.dir)
}
