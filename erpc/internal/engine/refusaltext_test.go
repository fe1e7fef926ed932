package engine

import (
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/wire"
)

// TestRefusalText: the text of a server's refusal comes whole in any script, but for what a
// terminal could obey, and a character that was cut off.
func TestRefusalText(t *testing.T) {
	for text, want := range map[string]string{
		"nur für Leser":                "nur für Leser",
		"читатели, 讀者":                 "читатели, 讀者",
		"a\x1b[2Jb\nc\u202ed\x00":      "a[2Jbcd",
		"cut \xc3":                     "cut ",
		strings.Repeat("é", 150):       strings.Repeat("é", 100),
		"x" + strings.Repeat("é", 150): "x" + strings.Repeat("é", 99),
	} {
		err := refusalError(&wire.Refuse{Code: wire.CodeDenied}, ErrRefused, []byte(text))
		if !strings.Contains(err.Error(), "("+want+")") {
			t.Errorf("%q has become %q", text, err)
		}
	}
}
