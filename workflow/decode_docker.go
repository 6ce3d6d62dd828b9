package workflow

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// Docker's own minimum for a container.
const minMemory = 6 << 20

// DecodeDocker reads a merged `docker:` block. nil is the zero Docker. Errors
// are *EvalError, joined where there are several (see Problems).
func DecodeDocker(v *Value, eval EvalFunc) (Docker, error) {
	d := &decoder{eval: eval}
	return d.docker(v), d.err()
}

func (d *decoder) docker(v *Value) Docker {
	var out Docker
	if v != nil && v.Kind == Scalar {
		if v.Plain != false {
			d.fail(v, "write an image, false, or a mapping", "`docker` cannot be %s", describe(v))
		}
		out.Host = true
		return out
	}
	d.each(v, "`docker`", keyNames("docker"), func(key string, v *Value) {
		switch key {
		case "image":
			out.Image = d.image(v)
		case "pull":
			out.Pull = d.oneOf(key, v, "always", "missing", "never")
		case "memory":
			out.Memory = d.size(key, v, minMemory)
		case "shm-size":
			out.ShmSize = d.size(key, v, 64<<10)
		case "cpus":
			out.CPUs = d.number(key, v, 0.01, 1024)
		case "cpu-shares":
			out.CPUShares = d.whole(key, v, 2, 262144)
		case "cpu-period":
			out.CPUPeriod = d.whole(key, v, 1000, 1_000_000)
		case "cpu-quota":
			out.CPUQuota = d.whole(key, v, 1000, 1<<40)
		case "pids-limit":
			out.PidsLimit = d.whole(key, v, 1, 4194304)
		case "max-containers":
			out.MaxContainers = int(d.whole(key, v, 1, 1000))
		case "network":
			out.Network = d.network(v)
		case "user":
			out.User = d.user(v)
		case "volumes":
			out.Volumes = d.volumes(v)
		case "tmpfs":
			out.Tmpfs = d.tmpfs(v)
		case "env":
			out.Env = d.textMap(key, v)
		case "labels":
			out.Labels = d.labels(v)
		case "ports":
			out.Ports = d.ports(v)
		case "ulimits":
			out.Ulimits = d.ulimits(v)
		case "read-only":
			out.ReadOnly = d.boolean(v)
		case "ephemeral":
			out.Ephemeral = d.boolean(v)
		case "reuse":
			if b := d.boolean(v); b != nil {
				out.Reuse = *b
			}
		case "privileged":
			if b := d.boolean(v); b != nil {
				out.Privileged = *b
			}
		case "oci-runtime":
			out.OCIRuntime = d.nonEmpty(key, v)
		case "auth":
			out.Auth = d.oneOf(key, v, "gateway", "env", "mount")
		case "host-config":
			out.HostConfig = d.json(key, v)
		}
	})
	if quota := v.Get("cpu-quota"); quota != nil && v.Get("cpus") != nil {
		d.fail(quota, "keep one of them", "`cpus` and `cpu-quota` say the same and cannot stand together")
	}
	if out.Reuse && out.Ephemeral != nil && *out.Ephemeral {
		d.fail(v.Get("reuse"), "remove `ephemeral: true`", "`reuse` keeps the box for the next run, and `ephemeral: true` removes it")
	}
	return out
}

var imageName = pattern(`^(?:(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|[A-Za-z0-9.-]+:[0-9]+|\[[0-9a-fA-F:]+\](?::[0-9]+)?)(?::[0-9]+)?/)?` +
	`[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*:[0-9a-fA-F]{32,})?$`)

func (d *decoder) image(v *Value) string {
	s := d.nonEmpty("image", v)
	if s != "" && !imageName().MatchString(s) {
		d.fail(v, "write NAME, NAME:TAG or NAME@sha256:DIGEST, the name in lower case", "%q is no image name", s)
		return ""
	}
	return s
}

func (d *decoder) network(v *Value) Network {
	const hint = "write none, bridge, host or {allow: [names]}"
	modes := []string{"none", "bridge", "host"}
	if v.Kind == Mapping {
		var n Network
		d.each(v, "`network`", keyNames("network"), func(key string, v *Value) {
			switch key {
			case "mode":
				n.Mode = d.oneOf("network.mode", v, append(modes, "allow")...)
			case "allow":
				n.Allow = d.allow(v)
			case "gateway":
				n.Gateway = d.boolean(v)
			}
		})
		mode, allow := v.Get("mode"), v.Get("allow")
		switch {
		case allow != nil && mode != nil && n.Mode != "" && n.Mode != "allow":
			d.fail(mode, "leave `mode` out", "a network with `allow` cannot have the mode %q", n.Mode)
		case allow != nil:
			n.Mode = "allow"
		case mode == nil:
			n.Mode = "none"
		case n.Mode == "allow":
			d.fail(mode, "add `allow: [names]`", "a network of mode allow needs the list `allow`")
		}
		return n
	}
	x, ok := d.value(v)
	if !ok {
		return Network{}
	}
	if o, isObject := x.(*expr.Object); isObject {
		return d.networkObject(v, o)
	}
	s, _ := x.(string)
	for _, m := range modes {
		if s == m {
			return Network{Mode: m}
		}
	}
	if near := didYouMean(s, modes); near != "" {
		d.fail(v, near+" "+hint, "`network` cannot be %s", kindName(x))
	} else {
		d.fail(v, hint, "`network` cannot be %s", kindName(x))
	}
	return Network{}
}

// networkObject reads a network that an expression gave as a mapping: it is
// spelled out as Values that all stand where the expression stands.
func (d *decoder) networkObject(v *Value, o *expr.Object) Network {
	inner := &decoder{eval: staticEval}
	n := inner.network(valueAt(v, o))
	d.errs = append(d.errs, inner.errs...)
	return n
}

// valueAt is an evaluated value as a Value at the place of v.
func valueAt(v *Value, x expr.Value) *Value {
	out := &Value{Pos: v.Pos, EndLine: v.EndLine, Quoted: true}
	switch x := x.(type) {
	case *expr.Object:
		out.Kind = Mapping
		for _, key := range x.Keys() {
			item, _ := x.Get(key)
			out.Entries = append(out.Entries, Entry{&Value{Pos: v.Pos, Text: key, Plain: key}, valueAt(v, item)})
		}
	case *expr.Array:
		out.Kind = Sequence
		for _, item := range x.Items {
			out.Items = append(out.Items, valueAt(v, item))
		}
	default:
		out.Text, out.Plain = expr.String(x), x
		out.tpl = &parsedTemplate{literal: true}
	}
	return out
}

var allowName = pattern(`^(\*\.)?[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)

// allow reads the names a box may reach: whole labels, `*.` only in front.
func (d *decoder) allow(v *Value) []string {
	list := []string{}
	for _, it := range d.list("allow", v) {
		s, isText := it.x.(string)
		name := strings.TrimSuffix(strings.ToLower(s), ".")
		if !isText || !isAllowed(name) {
			d.fail(it.at, "write github.com, \"*.npmjs.org\" or host:port, without scheme and path", "%s is no host name", kindName(it.x))
			continue
		}
		list = append(list, name)
	}
	return list
}

// isAllowed says whether name is a host, with a port or without. What ends in a
// number must be an address: some programs read "127.1" or "0x7f.1" as one.
func isAllowed(name string) bool {
	host, port := name, ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, ']') {
		host, port = name[:i], name[i+1:]
		if strings.Trim(port, "0123456789") != "" || !isPort(port) {
			return false
		}
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && addr.Is6() && addr.Zone() == ""
	}
	if len(host) > 253 || !allowName().MatchString(host) {
		return false
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

var userIDs = pattern(`^[0-9]{1,10}:[0-9]{1,10}$`)

func (d *decoder) user(v *Value) string {
	s := d.nonEmpty("user", v)
	switch {
	case s == "":
		return ""
	case s == "root":
		return "0:0"
	case !userIDs().MatchString(s):
		d.fail(v, "write the numbers of user and group, for example \"1000:1000\"", "`user` cannot be %q", s)
		return ""
	}
	return s
}

func (d *decoder) labels(v *Value) map[string]string {
	labels := d.textMap("labels", v)
	for name := range labels {
		if strings.HasPrefix(name, "herd-runner") {
			d.fail(v, "choose another name", "labels that begin with herd-runner are the runner's own")
			break
		}
	}
	return labels
}

var portMapping = pattern(`^(?:(?:[0-9.]+|\[[0-9a-fA-F:]+\]|localhost):)?(?:([0-9]{1,5})?:)?([0-9]{1,5})(?:/(tcp|udp|sctp))?$`)

func (d *decoder) ports(v *Value) []string {
	list := []string{}
	for _, it := range d.list("ports", v) {
		s := expr.String(it.x)
		m := portMapping().FindStringSubmatch(s)
		if m == nil || !isPort(m[2]) || m[1] != "" && !isPort(m[1]) {
			d.fail(it.at, "write \"8080:80\" or \"127.0.0.1:8080:80/tcp\", in quotes", "%s is no port", kindName(it.x))
			continue
		}
		list = append(list, s)
	}
	return list
}

func isPort(s string) bool {
	n := 0
	_, err := fmt.Sscanf(s, "%d", &n)
	return err == nil && n >= 1 && n <= 65535
}
