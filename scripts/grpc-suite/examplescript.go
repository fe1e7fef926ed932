package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// example is a server and a client of grpc-go's examples, and what their script expects of them.
type example struct {
	folder     string
	server     []string // arguments
	client     []string
	awaits     string // a port, or an abstract address: the server is ready that listens there
	serverSays string // regular expressions
	clientSays string
}

// exampleScript is the script, in the examples' module.
const exampleScript = "examples_test.sh"

// What that script has: the names of its examples, its tables and their entries, its constants.
var (
	exampleName  = regexp.MustCompile(`(?m)^    "([\w/]+)"$`)
	exampleTable = regexp.MustCompile(`(?ms)^declare -A (\w+)=\(\n(.*?)^\)`)
	exampleEntry = regexp.MustCompile(`(?m)^    \["([\w/]+)"\]="(.*)"$`)
	exampleConst = regexp.MustCompile(`(?m)^export ([A-Z_]+)=([\w-]+)$`)
	exampleAwait = regexp.MustCompile(`\| grep (\S+)`)
)

// plainGrep makes an expression of grep one of package regexp: what grep takes as it is.
var plainGrep = strings.NewReplacer(
	"(", `\(`, ")", `\)`, "+", `\+`, "?", `\?`, "{", `\{`, "|", `\|`)

// readExamples reads the script of a folder.
func readExamples(dir string) ([]example, error) {
	text, err := os.ReadFile(filepath.Join(dir, exampleScript))
	if err != nil {
		return nil, err
	}
	script := string(text)
	replaced := []string{`$(dirname $(realpath "$0"))`, dir, `\"`, `"`}
	for _, m := range exampleConst.FindAllStringSubmatch(script, -1) {
		replaced = append(replaced, "$"+m[1], m[2])
	}
	constants := strings.NewReplacer(replaced...)
	tables := map[string]map[string]string{}
	for _, m := range exampleTable.FindAllStringSubmatch(script, -1) {
		tables[m[1]] = map[string]string{}
		for _, e := range exampleEntry.FindAllStringSubmatch(m[2], -1) {
			tables[m[1]][e[1]] = constants.Replace(e[2])
		}
	}
	var all []example
	for _, m := range exampleName.FindAllStringSubmatch(script, -1) {
		of := func(table string) string {
			if text, ok := tables[table][m[1]]; ok {
				return text
			}
			return tables[table]["default"]
		}
		e := example{folder: m[1],
			server: strings.Fields(of("SERVER_ARGS")), client: strings.Fields(of("CLIENT_ARGS")),
			serverSays: plainGrep.Replace(of("EXPECTED_SERVER_OUTPUT")),
			clientSays: plainGrep.Replace(of("EXPECTED_CLIENT_OUTPUT"))}
		if at := exampleAwait.FindStringSubmatch(of("SERVER_WAIT_COMMAND")); at != nil {
			e.awaits = at[1]
		}
		if e.awaits == "" || len(e.server) == 0 || len(e.client) == 0 {
			return nil, fmt.Errorf("%s does not say how %s runs", exampleScript, e.folder)
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no examples", exampleScript)
	}
	return all, nil
}
