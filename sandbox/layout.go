package sandbox

// Layout is where a box finds the project and its own directories. A workspace
// makes it; the executor puts it into the Spec.
type Layout struct {
	Mounts              []Mount
	User                string // "uid:gid"; empty on the host
	Workdir, Home, Temp string // absolute, as seen by the processes
	Env                 map[string]string
}
