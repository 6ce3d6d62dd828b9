package workflow

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

var sizeText = pattern(`^([0-9]{1,15}(?:\.[0-9]{1,6})?)([bkmgt]?)(?:i?b)?$`)

const maxSize = 1 << 50

// parseSize reads 2g, 512m, 1.5g or a number of bytes, in powers of 1024.
func parseSize(s string) (int64, bool) {
	m := sizeText().FindStringSubmatch(strings.ToLower(s))
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(m[1], 64)
	shift := map[string]int{"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}[m[2]]
	n *= math.Pow(2, float64(shift))
	if err != nil || n > maxSize || shift == 0 && n != math.Trunc(n) {
		return 0, false
	}
	return int64(n), true
}

// size takes an amount of bytes of at least low.
func (d *decoder) size(key string, v *Value, low int64) int64 {
	x, ok := d.value(v)
	if !ok {
		return 0
	}
	return d.sizeOf(key, v, x, low)
}

func (d *decoder) sizeOf(key string, at *Value, x expr.Value, low int64) int64 {
	const hint = "write a number and a unit without a space, for example 512m or 2g"
	var s string
	switch x := x.(type) {
	case string:
		s = x
	case float64:
		s = strconv.FormatFloat(x, 'f', -1, 64)
	default:
		d.fail(at, hint, "`%s` must be a size, found %s", key, kindName(x))
		return 0
	}
	n, ok := parseSize(s)
	switch {
	case !ok:
		d.fail(at, hint, "`%s` cannot be %s", key, kindName(x))
	case n < low:
		d.fail(at, "write at least "+sizeName(low)+", for example 512m or 2g; a number without a unit is bytes", "`%s` of %s is %d bytes, which is too small", key, strings.TrimSpace(s), n)
	default:
		return n
	}
	return 0
}

func sizeName(n int64) string {
	if n >= 1<<20 {
		return strconv.FormatInt(n>>20, 10) + "m"
	}
	return strconv.FormatInt(n>>10, 10) + "k"
}

// volumes reads `host:container[:ro|rw]`.
func (d *decoder) volumes(v *Value) []Volume {
	const hint = "write host:container, host:container:ro or host:container:rw, for example ./cache:/cache:ro"
	list := []Volume{}
	taken := map[string]bool{}
	for _, it := range d.list("volumes", v) {
		s, _ := it.x.(string)
		vol, problem := parseVolume(s)
		switch {
		case problem != "":
			d.fail(it.at, hint, "volume %s %s", kindName(it.x), problem)
		case taken[vol.Target]:
			d.fail(it.at, "choose another path", "two volumes are mounted at %q", vol.Target)
		default:
			taken[vol.Target] = true
			list = append(list, vol)
		}
	}
	return list
}

func parseVolume(s string) (vol Volume, problem string) {
	parts := strings.Split(s, ":")
	switch {
	case len(parts) < 2:
		return vol, "does not say where in the container it is mounted"
	case len(parts) > 3:
		return vol, "has too many colons"
	case strings.ContainsAny(s, "\x00\n"):
		return vol, "holds a line break or NUL"
	case len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw":
		return vol, "has the mode " + strconv.Quote(parts[2])
	}
	source, target := parts[0], parts[1]
	relative := source == "." || source == ".." || source == "~" || strings.HasPrefix(source, "./") ||
		strings.HasPrefix(source, "../") || strings.HasPrefix(source, "~/")
	switch {
	case !relative && !strings.HasPrefix(source, "/"):
		return vol, "must begin with a path of the host such as ./cache or /data"
	case !strings.HasPrefix(target, "/"):
		return vol, "must have an absolute path in the container"
	case path.Clean(target) == "/":
		return vol, "cannot be mounted at / of the container"
	}
	for _, part := range strings.Split(target, "/") {
		if part == ".." {
			return vol, "has .. in the path of the container"
		}
	}
	return Volume{Source: source, Target: path.Clean(target), ReadOnly: len(parts) == 3 && parts[2] == "ro"}, ""
}

// tmpfs reads a list of PATH or PATH:size=64m,exec, or a mapping PATH: SIZE.
func (d *decoder) tmpfs(v *Value) []Tmpfs {
	list := []Tmpfs{}
	if v.Kind == Mapping {
		for _, e := range v.Entries {
			t := Tmpfs{Target: e.Key.Text, Size: d.size("tmpfs", e.Value, 64<<10)}
			if d.mountable(e.Key, t.Target) {
				list = append(list, t)
			}
		}
		return list
	}
	for _, it := range d.list("tmpfs", v) {
		s, _ := it.x.(string)
		target, options, _ := strings.Cut(s, ":")
		if !d.mountable(it.at, target) {
			continue
		}
		t := Tmpfs{Target: target}
		for _, option := range strings.Split(options, ",") {
			key, value, _ := strings.Cut(option, "=")
			switch key {
			case "", "noexec", "nosuid", "nodev", "rw":
			case "exec":
				t.Exec = true
			case "size":
				t.Size = d.sizeOf("tmpfs size", it.at, value, 64<<10)
			default:
				d.fail(it.at, "the options are size=SIZE and exec", "unknown tmpfs option %q", key)
			}
		}
		list = append(list, t)
	}
	return list
}

func (d *decoder) mountable(at *Value, target string) bool {
	if !strings.HasPrefix(target, "/") || path.Clean(target) != target || target == "/" || strings.ContainsAny(target, "\x00\n") {
		d.fail(at, "write an absolute path below /, for example /tmp:size=64m", "a tmpfs cannot be mounted at %q", target)
		return false
	}
	return true
}

func ulimitNames() []string {
	return []string{"core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack"}
}

// ulimits reads {nofile: 1024, nproc: {soft: 1, hard: 2}} or [nofile=1024:2048].
func (d *decoder) ulimits(v *Value) []Ulimit {
	list := []Ulimit{}
	add := func(at *Value, u Ulimit) {
		switch {
		case !slices.Contains(ulimitNames(), u.Name):
			d.fail(at, suggest(u.Name, ulimitNames()), "unknown ulimit %q", u.Name)
		case u.Hard >= 0 && (u.Soft > u.Hard || u.Soft < 0):
			d.fail(at, "", "the soft limit of %q is above its hard limit", u.Name)
		default:
			list = append(list, u)
		}
	}
	if v.Kind != Mapping {
		for _, it := range d.list("ulimits", v) {
			s, _ := it.x.(string)
			u, ok := parseUlimit(s)
			if !ok {
				d.fail(it.at, "write nofile=1024 or nofile=1024:2048", "%s is no ulimit", kindName(it.x))
				continue
			}
			add(it.at, u)
		}
		return list
	}
	for _, e := range v.Entries {
		u := Ulimit{Name: e.Key.Text}
		if e.Value.Kind == Mapping {
			d.each(e.Value, "a ulimit", keyNames("ulimit"), func(key string, v *Value) {
				n := d.whole(key, v, -1, math.MaxInt32)
				if key == "soft" {
					u.Soft = n
				} else {
					u.Hard = n
				}
			})
			if e.Value.Get("soft") == nil || e.Value.Get("hard") == nil {
				d.fail(e.Value, "write {soft: 1024, hard: 2048}", "a ulimit needs `soft` and `hard`")
				continue
			}
		} else {
			u.Soft = d.whole(u.Name, e.Value, -1, math.MaxInt32)
			u.Hard = u.Soft
		}
		add(e.Key, u)
	}
	return list
}

func parseUlimit(s string) (Ulimit, bool) {
	name, limits, ok := strings.Cut(s, "=")
	soft, hard, both := strings.Cut(limits, ":")
	if !both {
		hard = soft
	}
	a, errA := strconv.ParseInt(soft, 10, 64)
	b, errB := strconv.ParseInt(hard, 10, 64)
	return Ulimit{Name: name, Soft: a, Hard: b}, ok && errA == nil && errB == nil && a >= -1 && b >= -1
}
