package gemini

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/herd-runner/herd-runner/runtimes"
)

// attempts is how often the CLI asks again after 429 and 5xx; on its own it
// still does after four minutes. The gateway and `retry:` wait better.
const attempts = 3

// object is a JSON object; its keys are written in order.
type object = map[string]any

// settings is the CLI's settings.json for task.
func settings(task runtimes.Task) ([]byte, error) {
	cfg := task.Config
	servers, err := runtimes.MCPServers(cfg.MCPServers)
	if err != nil {
		return nil, err
	}
	s := object{
		"security":  object{"auth": object{"selectedType": "gemini-api-key"}},
		"advanced":  object{"ignoreLocalEnv": true, "autoConfigureMemory": false},
		"general":   object{"enableAutoUpdate": false, "enableAutoUpdateNotification": false, "maxAttempts": attempts},
		"privacy":   object{"usageStatisticsEnabled": false},
		"telemetry": object{"enabled": false},
		"hooksConfig": object{
			"enabled": false,
		},
	}
	if cfg.MaxTurns > 0 {
		s["model"] = object{"maxSessionTurns": cfg.MaxTurns}
	}
	tools := object{}
	if len(cfg.AllowedTools) > 0 {
		tools["core"] = cfg.AllowedTools
	}
	if len(cfg.DeniedTools) > 0 {
		tools["exclude"] = cfg.DeniedTools
	}
	if len(tools) > 0 {
		s["tools"] = tools
	}
	if len(servers) > 0 {
		s["mcpServers"] = mcpServers(servers)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the CLI's settings: %w", err)
	}
	return append(data, '\n'), nil
}

// mcpServers writes servers as the CLI names their parts.
func mcpServers(servers []runtimes.MCPServer) object {
	all := object{}
	for _, s := range servers {
		o := object{"trust": true} // nobody can be asked
		switch {
		case s.Command != "":
			o["command"] = s.Command
			if len(s.Args) > 0 {
				o["args"] = s.Args
			}
			if len(s.Env) > 0 {
				o["env"] = maps.Clone(s.Env)
			}
		case s.SSE:
			o["url"] = s.URL
		default:
			o["httpUrl"] = s.URL
		}
		if len(s.Headers) > 0 {
			o["headers"] = maps.Clone(s.Headers)
		}
		all[s.Name] = o
	}
	return all
}
