package erpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
)

// Mutual TLS 1.3: both sides show certificates, every packet is encrypted and authenticated, and
// Authorize decides which clients may come. "erpc cert" makes such certificates for trials.
func ExampleConfig_mutualTLS() {
	const whoAmI = 1
	ca := sectest.NewCA("lab")
	server, err := erpc.NewServer(erpc.Config{
		TLS: ca.Config("127.0.0.1", ""),
		Authorize: func(_ context.Context, state erpc.ConnectionState) error {
			if id := state.SPIFFE(); id == nil || !strings.HasPrefix(id.Path, "/billing") {
				return errors.New("only billing may come")
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = server.Handle(whoAmI, func(ctx context.Context, _ []byte) ([]byte, error) {
		return []byte(erpc.StateFrom(ctx).SPIFFE().String()), nil
	})
	if err != nil {
		log.Fatal(err)
	}
	conn := mustListen()
	go func() { _ = server.Serve(conn) }()

	client := mustDial(conn.LocalAddr().String(), erpc.Config{
		TLS: ca.Config("", "spiffe://lab/billing/1"),
	})
	answer, err := client.Call(context.Background(), whoAmI, nil)
	fmt.Println(string(answer), err)

	// Another identity is refused.
	_, err = erpc.Dial(context.Background(), mustListen(), conn.LocalAddr().String(),
		erpc.Config{TLS: ca.Config("", "spiffe://lab/guest")})
	fmt.Println(errors.Is(err, erpc.ErrDenied))

	closeAll(client, server)
	// Output:
	// spiffe://lab/billing/1 <nil>
	// true
}

// A client that demands encryption does not talk to a server without it.
func Example_insecureServer() {
	server, addr := mustServe(1, func(context.Context, []byte) ([]byte, error) { return nil, nil })
	_, err := erpc.Dial(context.Background(), mustListen(), addr, erpc.Config{
		TLS: &tls.Config{ServerName: "db.example"},
	})
	fmt.Println(errors.Is(err, erpc.ErrInsecure), errors.Is(err, erpc.ErrNotRun))
	closeAll(server)
	// Output: true true
}

// A key that the members of a closed cluster share, in place of certificates.
func ExampleConfig_sharedKey() {
	const cipher = 1
	// Keep keys in a file of mode 0600, and make them with a random generator: 16 bytes or more.
	config := erpc.Config{PSK: [][]byte{[]byte("0123456789abcdef0123456789abcdef")}}
	server, err := erpc.NewServer(config)
	if err != nil {
		log.Fatal(err)
	}
	err = server.Handle(cipher, func(ctx context.Context, _ []byte) ([]byte, error) {
		state := erpc.StateFrom(ctx)
		return fmt.Append(nil, state.PSK, " ", state.Cipher != ""), nil
	})
	if err != nil {
		log.Fatal(err)
	}
	conn := mustListen()
	go func() { _ = server.Serve(conn) }()
	client := mustDial(conn.LocalAddr().String(), config)
	answer, err := client.Call(context.Background(), cipher, nil)
	fmt.Println(string(answer), err)

	closeAll(client, server)
	// Output: true true <nil>
}
