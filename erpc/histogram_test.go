package erpc_test

import (
	"encoding/json"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestHistogramJSON: JSON brings back all of a histogram; what is no histogram is an error.
func TestHistogramJSON(t *testing.T) {
	var h, back erpc.Histogram
	for ns := int64(1); ns < 1e12; ns *= 3 {
		h.Add(ns)
		h.Add(ns)
	}
	text, err := json.Marshal(&h)
	if err != nil {
		t.Fatal(err)
	}
	back.Add(5) // goes
	if err := json.Unmarshal(text, &back); err != nil || back != h {
		t.Errorf("%v, %s", err, text)
	}
	for _, bad := range []string{`{"Buckets":[[99999,1]]}`, `{"Buckets":[[-1,1]]}`, `[]`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
