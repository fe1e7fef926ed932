package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli/secure"
)

func main() {
	var o options
	flag.StringVar(&o.target, "target", "", "the server, an address of 127.0.0.0/8 with a port")
	flag.StringVar(&o.attack, "attack", "junk", "what to send; see the package's documentation")
	flag.IntVar(&o.rate, "rate", 160_000, "packets a second")
	flag.DurationVar(&o.duration, "duration", 2*time.Second, "for how long")
	flag.IntVar(&o.size, "size", 88, "of junk, bytes")
	flag.IntVar(&o.addresses, "addresses", 1, "from which parts and hellos come, 1 to 10,000")
	flag.IntVar(&o.dials, "dials", 0, "dial so often as honest clients do, instead of attacking")
	flag.IntVar(&o.dialers, "dialers", 4, "honest clients that dial at the same time")
	flag.BoolVar(&o.serve, "serve", false,
		"run a server at the target for as long, in place of an attack")
	flag.Int64Var(&o.memory, "memory", 0, "the server's memory limit in MiB; 0 is the default")
	flag.BoolVar(&o.victims, "victims", false,
		"print the rate of ten clients, each from another address")
	alone := flag.String("tls-alone", "",
		"full or resumed: time such handshakes of crypto/tls alone")
	flag.BoolVar(&o.bare, "tls-bare", false,
		"serve or dial by crypto/tls and a UDP socket alone, with -serve or -dials")
	flag.BoolVar(&o.bareKeys, "tls-keys", false,
		"... with encrypted handshakes and keys of packets")
	flag.BoolVar(&o.workers, "tls-workers", false,
		"steps of bare handshakes run in goroutines beside the one that reads")
	flag.BoolVar(&o.session, "tls-session", false,
		"... with those, as requests of a plain session of this library; with -tls-workers in workers")
	flag.BoolVar(&o.p256, "p256", false, "-dials and -tls-alone agree on keys by P-256, not X25519")
	flag.BoolVar(&o.resume, "resume", false, "dials resume one TLS session")
	for name, value := range map[string]*string{"tls-cert": &o.keys.TLSCert,
		"tls-key": &o.keys.TLSKey, "tls-ca": &o.keys.TLSCA, "psk-file": &o.keys.PSKFile} {
		flag.StringVar(value, name, "", "of honest clients and of the attack forged, as erpc has it")
	}
	flag.Parse()
	if err := o.keys.Load(); err != nil {
		exit(err)
	}
	switch {
	case *alone != "":
		exit(timeTLS(&o, *alone == "resumed"))
	case o.bare && o.session && o.serve:
		exit(serveSession(&o))
	case o.bare && o.serve:
		exit(serveBare(&o))
	case o.dials > 0:
		said, err := dialAll(&o)
		if err == nil {
			fmt.Println(said)
		}
		exit(err)
	case o.serve:
		exit(serve(o))
	case o.victims:
		rate, failed, err := victimRate(o)
		fmt.Printf("%.0f %d\n", rate, failed)
		exit(err)
	case o.attack == "hog-sessions":
		exit(runSessions(o))
	case o.attack == "hog-handlers":
		exit(runHandlers(o))
	}
	attack := run
	if o.attack == "parts" || o.attack == "hellos" {
		attack = runStranger
	}
	sent, err := attack(o)
	fmt.Println(sent)
	exit(err)
}

// exit ends the process, with the error if there is one.
func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "erpc-hostile:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

type options struct {
	target, attack string
	rate, size     int
	addresses      int
	dials, dialers int
	duration       time.Duration
	serve, victims bool
	memory         int64
	resume, p256   bool
	bare, workers  bool
	bareKeys       bool
	session        bool
	keys           secure.Flags
}

// source makes the next packet of an attack, in memory of its own, and says from which address of
// 127.0.0.0/8 it is to leave.
type source func() (pkt []byte, from [4]byte)

// run sends packets at a rate, in steps of a millisecond, and returns how many it has sent.
func run(o options) (sent int, err error) {
	s, err := openTo(o.target)
	if err != nil {
		return 0, err
	}
	defer s.close()
	next, err := s.source(o)
	if err != nil {
		return 0, err
	}
	each := 1 // packets in a datagram
	if strings.HasSuffix(o.attack, "-bundle") {
		each = inBundle
	}
	start := time.Now()
	for {
		elapsed := time.Since(start)
		if elapsed >= o.duration {
			return sent, nil
		}
		for due := int(elapsed.Seconds() * float64(o.rate)); sent < due; sent += each {
			pkt, from := next()
			if err := s.send(pkt, from); err != nil {
				return sent, err
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// anywhere returns an address of 127.0.0.0/8, neither the first nor the last.
func anywhere() [4]byte { return addressOf(rand.Uint32()) }

// addressOf returns the address of a number: from 127.0.0.2 to 127.255.255.253. The kernel sends
// nothing from 127.255.255.255, a broadcast address: there the network is unreachable.
func addressOf(n uint32) [4]byte {
	const count = 1<<24 - 4
	n = 2 + n%count
	return [4]byte{127, byte(n >> 16), byte(n >> 8), byte(n)}
}
