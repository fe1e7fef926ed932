package endpoint

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
	"github.com/userspace-rpc/erpc/transport/faulty"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// Listen opens an endpoint at an address of UDP. It has shared memory beside it if local is set or
// ERPC_SUITE_NET is "shm", and loses the share ERPC_SUITE_LOSS of its packets, each way.
func Listen(where string, local bool) (tr transport.Transport, err error) {
	if os.Getenv("ERPC_SUITE_NET") == "shm" || local {
		tr, err = auto.Listen(where, auto.Config{})
	} else {
		tr, err = udp.Listen(where, udp.Config{})
	}
	text := os.Getenv("ERPC_SUITE_LOSS")
	if err != nil || text == "" || text == "0" {
		return tr, err
	}
	loss, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ERPC_SUITE_LOSS: %w", err), tr.Close())
	}
	lossy, err := faulty.New(tr, faulty.Config{
		Seed: 1, TX: faulty.Faults{Loss: loss}, RX: faulty.Faults{Loss: loss},
	})
	if err != nil {
		return nil, errors.Join(err, tr.Close())
	}
	return lossy, nil
}
