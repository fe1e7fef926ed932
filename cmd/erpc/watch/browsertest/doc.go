// Package browsertest tests the page of "erpc top --http" in a real browser, headless Chromium:
// that it moves, asks no other host, and can be used with a keyboard and with a screen reader. It
// has only tests, and is a module of its own for what they import.
package browsertest
