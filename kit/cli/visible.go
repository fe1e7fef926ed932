package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Visible returns text as a terminal may have it, whoever has written it: newlines, tabs and what
// can be seen stay. All else a terminal could obey, or show in another order than it comes; that is
// written as in JSON, "\u001b", and bytes that are no UTF-8 as "\xff".
func Visible(text string) string {
	if strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case hidden(r) && r != utf8.RuneError:
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
		default:
			b.WriteRune(r)
		}
		text = text[n:]
	}
	return b.String()
}

// hidden reports whether a character cannot be seen; utf8.RuneError may stand for bytes.
func hidden(r rune) bool {
	return r != '\n' && r != '\t' && !unicode.IsGraphic(r) || r == utf8.RuneError
}
