package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const top = "../.."

// command is one of a document, without its prompt and its comment.
type command struct {
	file string
	line int
	text string
	// console says that it stands in a block marked as console, after a prompt.
	console bool
}

// programs begin the commands in blocks that have no prompts.
var programs = regexp.MustCompile(`^(sudo |\S+=\S+ )*(erpc|erpc-kv|erpc-index|bin/\S+|make|go|` +
	`docker|tshark|ip|setcap|modprobe|(?:labs/)?scripts/\S+|git|mkdocs)( |$)`)

// span is a command in running text.
var span = regexp.MustCompile("`((?:sudo |[A-Z]+=\\S+ )*(?:erpc|bin/[a-z-]+|make|" +
	"go (?:test|run|doc|get|install|build)|(?:labs/)?scripts/[a-z-]+) [^`]+)`")

// notes follow a command in a block, after two spaces or a number sign.
var notes = regexp.MustCompile(`(\s{2,}.*|\s#.*)$`)

// extract returns the commands of a document.
func extract(file, text string) (list []command) {
	fence, tag, indent := false, "", 0
	add := func(line int, text string, console bool) {
		if !console {
			text = notes.ReplaceAllString(text, "")
		}
		if text = strings.TrimSpace(text); text != "" {
			list = append(list, command{file, line, text, console})
		}
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fence = !fence
			tag, indent = strings.TrimPrefix(trimmed, "```"), len(line)-len(trimmed)
		case fence && tag == "console":
			if c, ok := strings.CutPrefix(line[min(indent, len(line)):], "$ "); ok {
				add(i+1, c, true)
			}
		case fence && (tag == "" || tag == "sh" || tag == "bash"):
			if programs.MatchString(trimmed) {
				add(i+1, trimmed, false)
			}
		case !fence && strings.HasPrefix(line, "    ") && programs.MatchString(trimmed):
			add(i+1, trimmed, false)
		case !fence && !strings.HasPrefix(line, "    "):
			// A span may go over the end of a line.
			joined := line
			if i+1 < len(lines) && strings.Count(line, "`")%2 == 1 {
				joined += " " + strings.TrimSpace(lines[i+1])
			}
			for _, m := range span.FindAllStringSubmatch(joined, -1) {
				add(i+1, m[1], false)
			}
		}
	}
	return list
}

// documents returns the commands of all documents.
func documents(t *testing.T) (list []command) {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "*/README.md",
		"labs/performance.md"} {
		found, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	for _, name := range names {
		if filepath.Base(name) == "CHANGELOG.md" { // commands of their time
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		short, err := filepath.Rel(top, name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, extract(short, string(text))...)
	}
	return list
}

func TestExtract(t *testing.T) {
	text := "Run `make demo` or `erpc ping A\nB`, not `Config.Wait`.\n\n" +
		"```console\n$ make build  # kept\noutput\n```\n\n" +
		"```\nerpc doctor     what it says\nnot a command\n```\n\n" +
		"    make ycsb      # indented\n\n```go\nmake(x)\n```\n"
	var got []string
	for _, c := range extract("a.md", text) {
		got = append(got, c.text)
	}
	want := "make demo|erpc ping A B|make build  # kept|erpc doctor|make ycsb"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
}
