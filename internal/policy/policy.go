// Package policy is what the operator allows: the few things a workflow file may
// not decide by itself, because it may come with a repository nobody has read.
// It is read from the command line and from a file in the user's configuration
// directory, never from the project. Demands says what a docker: block needs,
// Policy whether it is allowed, Refusal which words would allow it.
package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

const fileMax = 1 << 20 // bytes

// Policy is the set of rules that are allowed. The zero Policy allows nothing.
// It is safe for concurrent use.
type Policy struct {
	path string
	by   map[string]string // canonical rule → where it was said

	models      Models
	day         DayBudget
	credentials map[string]Credential
}

// file is what the policy file may say.
type file struct {
	Allow  []string  `yaml:"allow"`
	Models Models    `yaml:"models"`
	Day    DayBudget `yaml:"day-budget"`

	Credentials map[string]Credential `yaml:"credentials"` // by API
}

// Load reads the policy file at path, where there is one, and adds the rules of
// allow, the values of --allow. A word that is no rule is an error.
func Load(path string, allow []string) (*Policy, error) {
	p := &Policy{path: path, by: map[string]string{}}
	said, err := readFile(path)
	if err != nil {
		return nil, err
	}
	p.models, p.day, p.credentials = said.Models, said.Day, said.Credentials
	for _, from := range []struct {
		name  string
		rules []string
	}{{path, said.Allow}, {"--allow", allow}} {
		for _, word := range from.rules {
			rule, err := parseRule(word)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", from.name, err)
			}
			p.by[rule] = from.name
		}
	}
	return p, nil
}

func readFile(path string) (said file, err error) {
	if path == "" {
		return said, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return said, nil
	}
	if err != nil {
		return said, fmt.Errorf("read the policy: %w", err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, fileMax+1))
	if err != nil {
		return said, fmt.Errorf("read the policy %s: %w", path, err)
	}
	if len(src) > fileMax {
		return said, fmt.Errorf("read the policy %s: it is larger than %d bytes", path, fileMax)
	}
	err = yaml.UnmarshalWithOptions(src, &said, yaml.Strict())
	if err != nil && !errors.Is(err, io.EOF) { // an empty file, or one of comments
		return said, fmt.Errorf("read the policy %s: expected `allow: [rules]`, `models:`, `day-budget:` or `credentials:`: %w", path, err)
	}
	if err := errors.Join(said.Models.check(), said.Day.check(), checkCredentials(said.Credentials)); err != nil {
		return said, fmt.Errorf("read the policy %s: %w", path, err)
	}
	return said, nil
}

// Allows says whether rule is allowed, and by whom: "--allow" or the file.
func (p *Policy) Allows(rule string) (by string, ok bool) {
	canonical, err := parseRule(rule)
	if err != nil {
		return "", false
	}
	for _, wider := range widerRules(canonical) {
		if by, ok = p.by[wider]; ok {
			return by, true
		}
	}
	return "", false
}

// Path is the file that was read; empty where there is none to read.
func (p *Policy) Path() string { return p.path }

// Ruling says where a rule stands.
type Ruling struct {
	Rule string `json:"rule"`
	From string `json:"from,omitempty"` // "--allow" or the file; empty: it is not allowed
}

// Rulings are the rules there are without a parameter, allowed or not, and what
// is allowed beside them, sorted.
func (p *Policy) Rulings() []Ruling {
	var all, more []Ruling
	for _, rule := range simpleRules() {
		all = append(all, Ruling{rule, p.by[rule]})
	}
	for rule, by := range p.by {
		if !slices.Contains(simpleRules(), rule) {
			more = append(more, Ruling{rule, by})
		}
	}
	slices.SortFunc(more, func(a, b Ruling) int { return strings.Compare(a.Rule, b.Rule) })
	return append(all, more...)
}

// Words are what would allow a rule.
func (p *Policy) Words(rule string) string { return p.refuse(Demand{Rule: rule}).Allow }

// Check refuses the demands that are not allowed, all at once: errors.As finds
// the first *Refusal.
func (p *Policy) Check(demands []Demand) error {
	var errs []error
	for _, d := range demands {
		if _, ok := p.Allows(d.Rule); !ok {
			errs = append(errs, p.refuse(d))
		}
	}
	return errors.Join(errs...)
}

// Refusal says that something needs the operator's word.
type Refusal struct {
	Rule  string // "network-host"
	What  string // "docker.network: host"
	Allow string // the exact words that would allow it
}

// PolicyRule names the rule that refused.
func (r *Refusal) PolicyRule() string { return r.Rule }

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s is not allowed (rule %s): to allow it, %s", r.What, r.Rule, r.Allow)
}

func (p *Policy) refuse(d Demand) *Refusal {
	word, entry := d.Rule, d.Rule
	if strings.Trim(word, ruleSafe) != "" {
		word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	if strings.ContainsAny(entry, ":, ") || entry != word {
		entry = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(entry) + `"`
	}
	words := "run with --allow " + word
	if p.path != "" {
		words += fmt.Sprintf(" or write allow: [%s] in %s", entry, p.path)
	}
	return &Refusal{Rule: d.Rule, What: d.What, Allow: words}
}

const ruleSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@+"
