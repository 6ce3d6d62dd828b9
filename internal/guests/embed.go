//go:build guests

package guests

import "embed"

// embedded is filled by scripts/cross-build.sh.
//
//go:embed embedded/linux-*.gz
var embedded embed.FS
