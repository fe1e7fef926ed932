package security_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/userspace-rpc/erpc/security"
)

// Two sides agree on keys by a shared key, and one seals a packet that the other opens. Programs
// set Config.PSK or Config.TLS of package erpc, which does all of this.
func Example() {
	keys := [][]byte{bytes.Repeat([]byte{7}, 32)}
	opening := security.Opening{Judge: func([]byte) ([]byte, error) { return nil, nil }}
	client := security.NewPSK(keys, nil, true, opening)
	server := security.NewPSK(keys, nil, false, opening)
	var fromClient, fromServer []byte
	var err error
	for !client.Done() || !server.Done() {
		if fromClient, err = client.Step(fromServer); err != nil {
			log.Fatal(err)
		}
		if fromServer, err = server.Step(fromClient); err != nil {
			log.Fatal(err)
		}
	}
	a, err := security.NewAssociation(client.Secrets(), true)
	if err != nil {
		log.Fatal(err)
	}
	b, err := security.NewAssociation(server.Secrets(), false)
	if err != nil {
		log.Fatal(err)
	}

	head := make([]byte, 24)
	room := make([]byte, 0, 100+security.Overhead)
	sealed, ok := a.Seal(room, head, []byte("secret"))
	fmt.Println(ok, bytes.Contains(sealed, []byte("secret")))
	damaged := bytes.Clone(sealed)
	damaged[len(damaged)-1] ^= 1
	opened, err := b.Open(sealed)
	fmt.Println(string(opened[24:]), err)
	_, err = b.Open(damaged)
	fmt.Println(err != nil)
	// Output:
	// true false
	// secret <nil>
	// true
}
