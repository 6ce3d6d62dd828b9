package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
)

// maxValuesFile bounds --inputs-file, --env-file, --secret-file and --event.
const maxValuesFile = 25 << 20

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxValuesFile+1))
	if err == nil && len(b) > maxValuesFile {
		err = fmt.Errorf("%s is larger than %d MiB", name, maxValuesFile>>20)
	}
	return b, err
}

// readInputs joins --inputs-file (JSON or YAML mapping, or KEY=VALUE lines) and
// -i k=v, the latter last.
func readInputs(dir, file string, args []string) (map[string]string, error) {
	given := map[string]string{}
	if file != "" {
		b, err := readBounded(under(dir, file))
		if err != nil {
			return nil, problem("--inputs-file: %w", err)
		}
		switch filepath.Ext(file) {
		case ".json", ".yml", ".yaml":
			var m map[string]any
			if err := yaml.Unmarshal(b, &m); err != nil {
				return nil, problem("--inputs-file %s: %w", file, err)
			}
			for k, v := range m {
				if given[k], err = scalarText(v); err != nil {
					return nil, problem("--inputs-file %s: %s: %w", file, k, err)
				}
			}
		default:
			if given, err = parseDotEnv(file, b); err != nil {
				return nil, problem("--inputs-file: %w", err)
			}
		}
	}
	last, err := pairs("-i", args)
	maps.Copy(given, last)
	return given, err
}

// pairs reads the NAME=VALUE arguments of a flag.
func pairs(flag string, args []string) (map[string]string, error) {
	m := map[string]string{}
	for _, arg := range args {
		k, v, ok := strings.Cut(arg, "=")
		if !ok || k == "" {
			return nil, problem("%s %q: expected NAME=VALUE", flag, arg)
		}
		m[k] = v
	}
	return m, nil
}

func scalarText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case map[string]any, []any:
		return "", fmt.Errorf("expected a string, number or boolean")
	default:
		b, err := json.Marshal(v)
		return string(b), err
	}
}

// readSecrets joins --secret-file (NAME=VALUE lines) and --secret, the latter
// last: K takes the value from the environment, K=V gives it.
func readSecrets(dir, file string, args []string, getenv func(string) string) (map[string]string, error) {
	secrets := map[string]string{}
	if file != "" {
		b, err := readBounded(under(dir, file))
		if err != nil {
			return nil, problem("--secret-file: %w", err)
		}
		if secrets, err = parseDotEnv(file, b); err != nil {
			return nil, problem("--secret-file: %w", err)
		}
	}
	for _, arg := range args {
		k, v, given := strings.Cut(arg, "=")
		if k == "" {
			return nil, problem("--secret: expected NAME (taken from the environment) or NAME=VALUE")
		}
		if !given {
			if v = getenv(k); v == "" {
				return nil, problem("--secret %s: the environment has no %s; export it, or use --secret-file", k, k)
			}
		}
		secrets[k] = v
	}
	return secrets, nil
}

// parseDotEnv reads KEY=VALUE lines: blank lines and # comments are skipped,
// `export ` is allowed, a value in double quotes has \n \t \" \\ escapes and may
// go on over lines, one in single quotes is taken as it is.
func parseDotEnv(name string, b []byte) (map[string]string, error) {
	m := map[string]string{}
	sc := bufio.NewScanner(strings.NewReader(string(b)))
	sc.Buffer(nil, maxValuesFile)
	for line := 1; sc.Scan(); line++ {
		text := strings.TrimSpace(sc.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		text = strings.TrimPrefix(text, "export ")
		k, v, ok := strings.Cut(text, "=")
		k = strings.TrimSpace(k)
		if !ok || k == "" || strings.ContainsAny(k, " \t\"'") {
			return nil, fmt.Errorf("%s:%d: expected NAME=VALUE", name, line)
		}
		v = strings.TrimSpace(v)
		start := line
		if strings.HasPrefix(v, `"`) {
			for !closedQuote(v) {
				if !sc.Scan() {
					return nil, fmt.Errorf("%s:%d: the double quote of %s is never closed", name, start, k)
				}
				line++
				v += "\n" + sc.Text()
			}
			v = unescape(v[1:strings.LastIndexByte(v, '"')])
		} else if len(v) >= 2 && v[0] == '\'' && v[len(v)-1] == '\'' {
			v = v[1 : len(v)-1]
		}
		m[k] = v
	}
	return m, sc.Err()
}

// closedQuote says whether text that begins with a double quote has its end.
func closedQuote(v string) bool {
	for i := 1; i < len(v); i++ {
		switch v[i] {
		case '\\':
			i++
		case '"':
			return true
		}
	}
	return false
}

func unescape(s string) string {
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\"`, `"`, `\\`, `\`).Replace(s)
}
