//go:build guests

package guests

import "embed"

// embedded is filled by scripts/build.sh: a program for each architecture, and
// beside it what its build is known by.
//
//go:embed embedded/linux-*
var embedded embed.FS
