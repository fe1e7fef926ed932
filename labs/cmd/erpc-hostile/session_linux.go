package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
	"github.com/userspace-rpc/erpc/wire"
)

// A bare handshake in a session is the least that a server with sessions does for a client. The
// session is a plain one of this library, so the server has its tables, its timers and its way to
// wait. The steps of a bare handshake with keys are two requests. The client's sealed packet goes
// with the second one.
//
//	C: Connect                            S: Challenge
//	C: Connect, with a cookie             S: Accept
//	C: a ClientHello, padded              S: its flight
//	C: its flight, and a sealed packet    S: a ticket, and a sealed packet
//	C: Disconnect
//
// A secure session has its ClientHello in the second Connect, and is opened by the sealed packets.

// Types of requests say where the server runs their steps.
const (
	stepInLoop   = 1
	stepInWorker = 2
)

// serveSession serves bare handshakes in sessions, and prints its address first.
func serveSession(o *options) error {
	cfg, _, err := bareConfig(o)
	if err != nil {
		return err
	}
	nexus, err := erpc.NewNexus(erpc.Config{Wait: erpc.WaitSleep})
	if err != nil {
		return err
	}
	step := func(h erpc.ReqHandle) {
		if out, err := answerStep(h.Session(), cfg, h.Data()); err != nil {
			_ = h.RespondError(err)
		} else {
			_ = h.RespondBytes(out)
		}
	}
	err = errors.Join(nexus.Register(stepInLoop, erpc.Dispatch, step),
		nexus.Register(stepInWorker, erpc.Background, step))
	if err != nil {
		return err
	}
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		return err
	}
	rpc, err := nexus.NewRpc(conn)
	if err != nil {
		return err
	}
	fmt.Println(rpc.LocalAddr())
	return rpc.Run(func() bool { return false })
}

// holder is a session, which holds the server's side of its handshake.
type holder interface {
	UserData() any
	SetUserData(v any)
}

// answerStep takes a request and returns what the server says. The last request has to have a
// packet that is sealed by the new keys.
func answerStep(s holder, cfg *tls.Config, in []byte) ([]byte, error) {
	side, _ := s.UserData().(*bareSide)
	if side == nil {
		side = newSide(cfg, false, true)
		s.SetUserData(side)
	}
	out, done, err := side.step(in)
	if err != nil || !done {
		return out, err
	}
	_, sealed, err := split(in)
	if err == nil {
		err = side.end(sealed)
	}
	return append(out, side.last()...), err
}

// endStep takes the answer to the last request, which has to have a sealed packet too.
func (s *bareSide) endStep(in []byte) error {
	_, sealed, err := split(in)
	if err == nil {
		err = s.end(sealed)
	}
	return err
}

// patient is the config of clients that repeat nothing but what was lost: a server whose answers
// take long is to have no more packets for that.
var patient = erpc.Config{Wait: erpc.WaitSleep, Timing: erpc.Timing{
	RTOInitial: inTime, RTOMin: inTime, RTOMax: inTime, ConnectRetry: inTime,
}}

// dialSession makes one bare handshake in a session. It reports whether a session of TLS was
// resumed.
func dialSession(target string, cfg *tls.Config, workers bool) (resumed bool, err error) {
	kind := uint8(stepInLoop)
	if workers {
		kind = stepInWorker
	}
	q := newSide(cfg, true, true)
	defer q.close()
	_, err = dialOnce(target, patient, func(ctx context.Context, c *erpc.Client) error {
		least := bareSecond - wire.HeaderSize
		return q.drive(func(say []byte, done bool) ([]byte, error) {
			if done {
				say = append(say, q.last()...)
			}
			say, least = pad(say, least), 0
			answer, err := c.Call(ctx, kind, say)
			if err == nil && done {
				err = q.endStep(answer)
			}
			return answer, err
		})
	})
	return err == nil && q.state().DidResume, err
}
