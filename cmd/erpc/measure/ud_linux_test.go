package measure

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestUdFlags: what makes no sense with an RDMA device is a wrong usage, and so is a machine
// without one.
func TestUdFlags(t *testing.T) {
	for _, f := range []NetFlags{
		{Transport: "ud", CC: "none", Iface: "mlx5_0/x"},
		{Transport: "ud", CC: "none", Iface: "mlx5_0/0"},
		{Transport: "udp", CC: "none", GID: "1"},
	} {
		f.Pin = "none"
		if err := f.Check(); !isUsage(err) {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if os.Getenv("RDMA_LAB") != "" {
		return
	}
	f := NetFlags{Transport: "ud", CC: "none", Pin: "none", Iface: "none0"}
	if names, _ := verbs.Devices(); len(names) == 0 {
		if err := f.Check(); !isUsage(err) || !strings.Contains(err.Error(), "needs an RDMA device") {
			t.Errorf("a machine without devices: %v", err)
		}
	}
	if tr, err := f.open(":0"); !isUsage(err) {
		if tr != nil {
			tr.Close()
		}
		t.Errorf("a device that is not there: %v", err)
	}
}

func isUsage(err error) bool {
	_, ok := errors.AsType[cli.UsageError](err)
	return ok
}
