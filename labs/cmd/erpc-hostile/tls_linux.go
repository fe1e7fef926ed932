package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security"
)

// timeTLS prints how many server sides of handshakes crypto/tls makes in a second of one core, as
// QUIC uses it and by the same certificates, without this library.
func timeTLS(o *options, resume bool) error {
	var cfg erpc.Config
	if o.keys.Apply(&cfg); cfg.TLS == nil {
		return errors.New("-tls-alone needs -tls-cert, -tls-key and -tls-ca")
	}
	const rounds = 200
	server := security.ServerConfig(cfg.TLS)
	client := security.ClientConfig(cfg.TLS, "127.0.0.1")
	if o.p256 {
		client.CurvePreferences = []tls.CurveID{tls.CurveP256}
	}
	if resume {
		client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	var took time.Duration
	for i := range rounds + 10 {
		d, resumed, err := oneTLS(server, client)
		if err != nil {
			return err
		}
		if i > 0 && resumed != resume {
			return fmt.Errorf("handshake %d: resumed %v, want %v", i, resumed, resume)
		}
		if i >= 10 {
			took += d
		}
	}
	fmt.Printf("%.0f\n", rounds/took.Seconds())
	return nil
}

// oneTLS makes a handshake and returns how long the server's side took.
func oneTLS(server, client *tls.Config) (took time.Duration, resumed bool, err error) {
	ctx := context.Background()
	c := tls.QUICClient(&tls.QUICConfig{TLSConfig: client})
	s := tls.QUICServer(&tls.QUICConfig{TLSConfig: server})
	c.SetTransportParameters(nil)
	s.SetTransportParameters(nil)
	start := time.Now()
	err = s.Start(ctx)
	took = time.Since(start)
	if err = errors.Join(err, c.Start(ctx)); err != nil {
		return 0, false, err
	}
	for moved := true; moved; {
		moved = false
		for e := c.NextEvent(); e.Kind != tls.QUICNoEvent; e = c.NextEvent() {
			if e.Kind == tls.QUICWriteData {
				moved = true
				start = time.Now()
				err = s.HandleData(e.Level, e.Data)
				if took += time.Since(start); err != nil {
					return 0, false, err
				}
			}
		}
		start = time.Now()
		for e := s.NextEvent(); e.Kind != tls.QUICNoEvent; e = s.NextEvent() {
			switch e.Kind {
			case tls.QUICHandshakeDone:
				err = s.SendSessionTicket(tls.QUICSessionTicketOptions{})
			case tls.QUICWriteData:
				moved = true
				took += time.Since(start)
				err = c.HandleData(e.Level, e.Data)
				start = time.Now()
			}
			if err != nil {
				return 0, false, err
			}
		}
		took += time.Since(start)
	}
	state := s.ConnectionState()
	if !state.HandshakeComplete {
		return 0, false, errors.New("a handshake did not end")
	}
	return took, state.DidResume, errors.Join(c.Close(), s.Close())
}
