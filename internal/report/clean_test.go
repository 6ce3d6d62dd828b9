package report

import (
	"testing"
	"time"
	"unicode/utf8"

	"github.com/herd-runner/herd-runner/internal/event"
)

// THREATS 18.
func TestClean(t *testing.T) {
	tests := []struct{ in, plain, colour string }{
		{"text\tand 日本", "text\tand 日本", "text\tand 日本"},
		{"\x1b[31mred\x1b[m", "red", "\x1b[31mred\x1b[m\x1b[0m"},
		{"\x1b[38:2:1:2:3mx", "x", "\x1b[38:2:1:2:3mx\x1b[0m"},
		{"\x1b[?25l\x1b[2J\x1b[1;1Hx", "x", "x"},
		{"\x1b[>4;1mx", "x", "x"},
		{"\x1b]0;title\x07x", "x", "x"},
		{"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link", "link"},
		{"\x1b]0;no end", "0;no end", "0;no end"},
		{"\x1bPq#0\x1b\\x", "x", "x"},
		{"\x1b(0x\x1bcy\x1b", "xy", "xy"},
		{"\x1b[31", "", ""},
		{"\x1b[3\x1b[2Jx", "x", "x"},
		{"a\x00b\bc\x7f", "a␀b␈c␡", "a␀b␈c␡"},
		{"\xff\xc3(", "\uFFFD\uFFFD(", "\uFFFD\uFFFD("},
		{"\u009b2Jx", "\uFFFD2Jx", "\uFFFD2Jx"},
		{"a\u202eb\u2066c", "a\uFFFDb\uFFFDc", "a\uFFFDb\uFFFDc"},
	}
	for _, tt := range tests {
		if got := Clean(tt.in); got != tt.plain {
			t.Errorf("Clean(%q) = %q, want %q", tt.in, got, tt.plain)
		}
		if got := string(appendClean(nil, []byte(tt.in), true)); got != tt.colour {
			t.Errorf("with colour %q = %q, want %q", tt.in, got, tt.colour)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[31mx\x1b]0;\x07")
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		for _, r := range got {
			if r < 0x20 && r != '\t' || r == 0x7f || drives(r) {
				t.Errorf("Clean(%q) holds %U", s, r)
			}
		}
	})
}

func TestFormats(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ms", 40 * time.Millisecond: "40ms", 2149 * time.Millisecond: "2.1s", 59999 * time.Millisecond: "1m00s",
		65 * time.Second: "1m05s", time.Hour - time.Millisecond: "1h00m", 123 * time.Minute: "2h03m",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%v) = %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -123456: "-123,456"} {
		if got := number(n); got != want {
			t.Errorf("number(%d) = %q", n, got)
		}
	}
	for want, u := range map[string]event.Usage{
		"": {}, "$0.0500": {Requests: 1, CostUSD: 0.05, CostKnown: true}, "≥$0.0500": {Requests: 2, CostUSD: 0.05}, "?": {Requests: 1},
	} {
		if got := Cost(u); got != want {
			t.Errorf("Cost(%+v) = %q, want %q", u, got, want)
		}
	}
	for n, want := range map[int64]string{12: "12 B", 1536: "1.5 KiB", 5 << 40: "5.0 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
	if got := cut("日本語テキスト", 7); width(got) > 7 || got != "日本語…" {
		t.Errorf("cut = %q", got)
	}
}

func TestBegun(t *testing.T) {
	for in, want := range map[string]int{"": 0, "a": 0, "é": 0, "a\xc3": 1, "\xe6\x97": 2, "\xf0\x9f\x90": 3, "\xff": 0, "\x80\x80\x80": 0} {
		if got := begun([]byte(in)); got != want {
			t.Errorf("begun(%q) = %d, want %d", in, got, want)
		}
	}
}
