package runtimes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// TypeAuto leaves the choice of the runtime to Choose, before a run.
const TypeAuto = "auto"

// Choice is what Choose found.
type Choice struct {
	// Able are the runtimes that can do what is asked, in order of preference.
	Able []Runtime
	// Passed are the others, each with its reason: "cli/gemini: lacks session-fork".
	Passed []string
}

// Choose finds the runtimes for a configuration of type TypeAuto: those of its
// engine, where it names one, that can do all it asks. against, which may be nil,
// says what else speaks against one; empty: nothing. CLIs come before the SDK
// loop, in the order of engines that NewFactory was given. Engine command is
// never chosen.
func (f *Factory) Choose(cfg Config, against func(rt Runtime, cfg Config) string) Choice {
	var c Choice
	for _, typ := range []string{TypeCLI, TypeSDK} {
		for _, rt := range f.rts {
			d := rt.Describe()
			if d.Type != typ || d.Engine == "command" || cfg.Engine != "" && cfg.Engine != d.Engine {
				continue
			}
			own := cfg
			own.Type, own.Engine = d.Type, d.Engine
			why := unable(rt, own)
			if why == "" && against != nil {
				why = against(rt, own)
			}
			if why != "" {
				c.Passed = append(c.Passed, d.Path()+": "+why)
				continue
			}
			c.Able = append(c.Able, rt)
		}
	}
	return c
}

// Path is how a runtime is written down: type/engine.
func (d Description) Path() string { return d.Type + "/" + d.Engine }

// unable says why the runtime can not do what cfg asks; "" where it can.
func unable(rt Runtime, cfg Config) string {
	d := rt.Describe()
	var lacks []string
	for _, f := range Asked(cfg) {
		if !d.Has(f) {
			lacks = append(lacks, string(f))
		}
	}
	switch vendor := Vendor(cfg.Model); {
	case len(lacks) > 0:
		return "lacks " + strings.Join(lacks, ", ")
	case cfg.Model != "" && vendor == "":
		return fmt.Sprintf("whose model %q is cannot be told: say the engine", cfg.Model)
	case vendor != "" && vendor != d.API:
		return fmt.Sprintf("the model %q is of another vendor", cfg.Model)
	case foreignTools(d, cfg):
		return "its tools have other names"
	}
	if err := Check(rt, cfg); err != nil {
		return err.Error()
	}
	return ""
}

// Asked are the features that cfg asks for.
func Asked(cfg Config) []Feature {
	var asked []Feature
	for _, n := range needs(cfg) {
		if n.wanted {
			asked = append(asked, n.feature)
		}
	}
	return asked
}

// Vendor is the API that a model is asked in, told by its name; "" where that does
// not tell.
func Vendor(model string) string {
	vendor, rest, both := strings.Cut(strings.ToLower(model), "/")
	if both {
		model = rest
	} else {
		model, vendor = vendor, ""
	}
	for api, names := range modelNames {
		if names.MatchString(model) && (vendor == "" || vendor == api || vendor == "google" && api == APIGemini) {
			return api
		}
	}
	return ""
}

// modelNames are how the names of models begin, by the API they are asked in.
var modelNames = map[string]*regexp.Regexp{
	APIAnthropic: regexp.MustCompile(`^(claude|sonnet|opus|haiku)`),
	APIOpenAI:    regexp.MustCompile(`^(gpt|chatgpt|codex|o[0-9])`),
	APIGemini:    regexp.MustCompile(`^gemini`),
}

// How the programs name their tools. Others take Claude Code's names, and such in
// lower case.
var (
	claudeTool = regexp.MustCompile(`^[A-Z]`)
	geminiTool = regexp.MustCompile(`^(glob|replace|[a-z]+(_[a-z]+)+)$`)
)

// foreignTools says whether a tool is named as another runtime names it.
func foreignTools(d Description, cfg Config) bool {
	return slices.ContainsFunc(slices.Concat(cfg.AllowedTools, cfg.DeniedTools), func(rule string) bool {
		name, _, _ := strings.Cut(rule, "(")
		switch name = strings.TrimSpace(name); {
		case strings.HasPrefix(name, "mcp_"):
			return false
		case d.Path() == "cli/claude":
			return !claudeTool.MatchString(name)
		case d.Path() == "cli/gemini":
			return !geminiTool.MatchString(name)
		}
		return strings.Contains(name, "_")
	})
}
