package clitest

import (
	"encoding/xml"
	"io"
	"os"
	"testing"
)

// Texts returns the text of an SVG file, which must be well-formed XML.
func Texts(t testing.TB, file string) (all []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := xml.NewDecoder(f)
	root := ""
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			if root == "" {
				root = x.Name.Local
			}
		case xml.CharData:
			all = append(all, string(x))
		}
	}
	if root != "svg" {
		t.Errorf("%s: root %q", file, root)
	}
	return all
}
