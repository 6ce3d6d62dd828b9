package agent

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// checkCommand takes a command line apart and judges each command in it, also
// those in substitutions and functions, and the files it writes to.
func (p permission) checkCommand(line string, anyUse bool, allowed, denied []string) error {
	_, writesAny := p.patterns(p.allowed, "write")
	mayWrite := anyUse || writesAny && p.offers("write")
	deniedFiles, _ := p.patterns(p.denied, "write")
	if anyUse && len(denied)+len(deniedFiles) == 0 {
		return nil
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return refusal("its rules need a command line that can be read: %v", err)
	}
	allowedFiles, _ := p.patterns(p.allowed, "write")
	var refused error
	syntax.Walk(file, func(n syntax.Node) bool {
		if refused != nil {
			return false
		}
		switch n := n.(type) {
		case *syntax.CallExpr:
			refused = judgeCommand(n, anyUse, allowed, denied)
		case *syntax.Redirect:
			target, ok := written(n)
			switch {
			case !ok:
			case target == "":
				if !mayWrite || len(deniedFiles) > 0 {
					refused = refusal("it writes to a file whose name is not plain")
				}
			default:
				refused = judge(target, mayWrite, allowedFiles, deniedFiles, p.matchPath)
			}
		}
		return refused == nil
	})
	return refused
}

// judgeCommand judges one simple command.
func judgeCommand(call *syntax.CallExpr, anyUse bool, allowed, denied []string) error {
	if len(call.Args) == 0 {
		return nil // only sets variables
	}
	var words []string
	for i, w := range call.Args {
		word, plain := literal(w)
		if !plain && i == 0 {
			return refusal("the name of a command is not plain: %s", source(w))
		}
		words = append(words, word)
	}
	command := strings.Join(words, " ")
	if err := judge(command, true, nil, denied, matchCommand); err != nil || anyUse {
		return err
	}
	for _, a := range slices.Backward(call.Assigns) { // they can change what it does
		command = source(a) + " " + command
	}
	return judge(command, false, allowed, nil, matchCommand)
}

// matchCommand matches a command with its arguments; "git *" also git alone.
func matchCommand(pattern, command string) bool {
	return glob(pattern, command) || strings.HasSuffix(pattern, " *") && command == strings.TrimSuffix(pattern, " *")
}

// written is the file that a redirection writes to: ok is false for those that
// write to none, target empty where it can not be told.
func written(r *syntax.Redirect) (target string, ok bool) {
	switch r.Op {
	case syntax.RdrIn, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return "", false
	}
	target, plain := literal(r.Word)
	if !plain {
		return "", true
	}
	switch {
	case r.Op == syntax.DplOut && strings.Trim(target, "0123456789-") == "":
		return "", false
	case slices.Contains([]string{"/dev/null", "/dev/stdout", "/dev/stderr"}, target):
		return "", false
	}
	return target, true
}

// literal is a word without its quotes; plain is false where it is only known
// when the command runs, and text then its source.
func literal(w *syntax.Word) (text string, plain bool) {
	plain = true
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			plain = !strings.HasPrefix(n.Value, "~")
		case nil, *syntax.Word, *syntax.SglQuoted, *syntax.DblQuoted:
		default:
			plain = false
		}
		return plain
	})
	if plain {
		text, err := expand.Literal(&expand.Config{}, w)
		if err == nil {
			return text, true
		}
	}
	return source(w), false
}

func source(n syntax.Node) string {
	var b strings.Builder
	_ = syntax.NewPrinter().Print(&b, n) // a Builder takes everything
	return b.String()
}
