package main

import (
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/security"
)

// findCiphers measures what sealing a packet and opening it costs.
func findCiphers() (list []finding) {
	for _, a := range []security.AEAD{security.AES128GCM, security.ChaCha20Poly1305} {
		f := finding{Name: a.String(), OK: true}
		if a == security.AES128GCM && !security.HasAES() {
			f.OK, f.Mend = false, "a processor with AES instructions; ChaCha20-Poly1305 is used instead"
		}
		f.Found = "seal and open"
		for _, size := range []int{64, 1400, 8900} {
			took, err := cipherTime(a, size)
			if err != nil {
				f.OK, f.Found = false, err.Error()
				break
			}
			f.Found += fmt.Sprintf(", %d B %d ns", size, took.Nanoseconds())
		}
		list = append(list, f)
	}
	return list
}

// cipherTime returns how long it takes to seal and open a packet of size bytes.
func cipherTime(a security.AEAD, size int) (time.Duration, error) {
	const rounds = 5000
	s := &security.Secrets{AEAD: a}
	from, err := security.NewAssociation(s, true)
	if err != nil {
		return 0, err
	}
	to, err := security.NewAssociation(s, false)
	if err != nil {
		return 0, err
	}
	pkt, buf := make([]byte, size), make([]byte, 0, size+security.Overhead)
	start := monotime.Now()
	for range rounds {
		out, _ := from.Seal(buf, pkt, nil)
		if _, err = to.Open(out); err != nil {
			return 0, err
		}
	}
	return monotime.Now().Sub(start) / rounds, nil
}
