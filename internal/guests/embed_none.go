//go:build !guests

package guests

import "embed"

var embedded embed.FS
