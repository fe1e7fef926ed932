// Package deploytest tests that compose's own loader takes the files of deploy/compose.
package deploytest
