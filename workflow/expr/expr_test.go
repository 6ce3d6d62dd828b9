package expr

import (
	"errors"
	"strings"
	"testing"
)

// contexts is what most tables here evaluate against.
const contexts = `{
  "github": {"ref": "refs/heads/main", "event_name": "push", "sha": "abc",
    "event": {"issue": {"labels": [{"name": "bug"}, {"id": 7}, {"name": "ui"}]}}},
  "list": ["zero", "one", "two"],
  "nested": [["a0", "a1"], ["b0"], "text", {"k": "v"}],
  "object": {"b": 1, "A": {"deep": [1, 2]}, "5": "five", "": "empty"},
  "empty": {}, "none": [],
  "mixed": [null, true, 1.5, "s", [], [1], {}, {"a": 1}],
  "text": "Hello", "number": 12, "no": null, "yes": true
}`

func contextEnv(t testing.TB, src string) (Env, Names) {
	t.Helper()
	v, err := FromJSON([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	object := v.(*Object)
	status := map[string]bool{"success": true, "failure": false, "always": true, "cancelled": false}
	env := Env{
		Context: object.Get,
		Function: func(name string) (Func, bool) {
			result, ok := status[name]
			return Func{Call: func([]Value) (Value, error) { return result, nil }}, ok
		},
	}
	names := Names{
		Context:  func(name string) bool { _, ok := object.Get(name); return ok },
		Function: func(name string) (int, int, bool) { _, ok := status[name]; return 0, 0, ok },
	}
	return env, names
}

func evalJSON(t testing.TB, src string) string {
	t.Helper()
	env, names := contextEnv(t, contexts)
	e, err := ParseWith(src, names)
	if err != nil {
		t.Errorf("%s: %v", src, err)
		return ""
	}
	v, err := e.Eval(env)
	if err != nil {
		t.Errorf("%s: %v", src, err)
		return ""
	}
	return string(AppendJSON(nil, v))
}

// values are pairs of an expression and its value as JSON.
type values [][2]string

func (table values) check(t *testing.T) {
	t.Helper()
	for _, row := range table {
		if got := evalJSON(t, row[0]); got != row[1] {
			t.Errorf("%s = %s, want %s", row[0], got, row[1])
		}
	}
}

func TestSemantics3Truth(t *testing.T) {
	values{
		{`!null`, `true`}, {`!false`, `true`}, {`!0`, `true`}, {`!-0`, `true`}, {`!NaN`, `true`}, {`!''`, `true`},
		{`!'false'`, `false`}, {`!'0'`, `false`}, {`!' '`, `false`}, {`!none`, `false`}, {`!empty`, `false`},
		{`!Infinity`, `false`}, {`!-1`, `false`}, {`!!text`, `true`},
	}.check(t)
}

func TestSemantics4OperandsAndShortCircuit(t *testing.T) {
	values{
		{`'a' && 'b'`, `"b"`}, {`'' && 'b'`, `""`}, {`0 && fromJSON('{')`, `0`},
		{`'a' || fromJSON('{')`, `"a"`}, {`null || 0 || ''`, `""`}, {`1 && 2 || 3`, `2`}, {`0 && 2 || 3`, `3`},
		{`'a' || 'b' && ''`, `"a"`}, {`(0 || 1) && 2`, `2`},
	}.check(t)
}

func TestSemantics21ComparisonIgnoresCase(t *testing.T) {
	values{
		{`'ABC' == 'abc'`, `true`}, {`'ABC' != 'abc'`, `false`}, {`'a' < 'B'`, `true`}, {`'b' > 'A'`, `true`},
		{`'a' >= 'A'`, `true`}, {`'a' < '_'`, `true`}, {`'a' < '['`, `true`}, {`'Z' < '['`, `true`},
		{`'ς' == 'Σ'`, `true`}, {`'ı' == 'I'`, `false`}, {`'ſ' == 'S'`, `false`}, {`'İ' == 'i'`, `false`},
		{`'ß' == 'SS'`, `false`}, {`'É' == 'é'`, `true`}, {`'𐐨' == '𐐀'`, `true`},
		{`'a' < 'ab'`, `true`}, {`'' < 'a'`, `true`}, {"'\uffff' > '😀'", `true`},
		{`contains('Hello', 'ELL')`, `true`}, {`contains('Straße', 'RASS')`, `false`}, {`contains('abc', '')`, `true`},
		{`contains(list, 'ONE')`, `true`}, {`contains(mixed, '1.5')`, `true`}, {`contains(mixed, false)`, `true`},
		{`contains(mixed, mixed[4])`, `true`}, {`contains(mixed, fromJSON('[]'))`, `false`},
		{`contains(object, 'b')`, `false`}, {`contains('Array', list)`, `false`}, {`contains(12345, 34)`, `true`},
		{`contains(no, '')`, `true`}, {`contains(none, fromJSON('{'))`, `false`},
		{`startsWith('Hello', 'hE')`, `true`}, {`startsWith('12', 1)`, `true`}, {`startsWith(list, '')`, `false`},
		{`startsWith('x', none)`, `false`}, {`startsWith('', '')`, `true`}, {`startsWith('a', 'ab')`, `false`},
		{`endsWith('Hello', 'LO')`, `true`}, {`endsWith('true', yes)`, `true`}, {`endsWith('a', empty)`, `false`},
		{`endsWith('grün', 'ÜN')`, `true`},
		{`list == list`, `true`}, {`object.a == object['A']`, `true`}, {`fromJSON('[]') == fromJSON('[]')`, `false`},
		{`list.* == list.*`, `false`}, {`none == ''`, `false`}, {`empty == 'Object'`, `false`}, {`list > list`, `false`},
		{`list >= list`, `true`}, {`none == empty`, `false`},
	}.check(t)
}

func TestSemantics22LooseNumbers(t *testing.T) {
	values{
		{`'' == 0`, `true`}, {`null == ''`, `true`}, {`' 1 ' == 1`, `true`}, {`'0x10' == 16`, `true`},
		{`true == 'true'`, `false`}, {`true == '1'`, `true`}, {`true == 1`, `true`}, {`false == ''`, `true`},
		{`null == 0`, `true`}, {`null == null`, `true`}, {`null >= null`, `true`}, {`null > null`, `false`},
		{`null == false`, `true`}, {`null < 1`, `true`}, {`true > false`, `true`}, {`false < true`, `true`},
		{`NaN == NaN`, `false`}, {`NaN != NaN`, `true`}, {`NaN >= NaN`, `false`}, {`'abc' == 0`, `false`},
		{`'abc' < 1`, `false`}, {`'abc' > 1`, `false`}, {`'2' > '10'`, `true`}, {`2 > '10'`, `false`},
		{`-0 == 0`, `true`}, {`'Infinity' == Infinity`, `true`}, {`'-Infinity' < 0`, `true`},
		{`'+1' == 1`, `true`}, {`'1e3' == 1000`, `true`}, {`'.5' == 0.5`, `true`}, {`'5.' == 5`, `true`},
		{`'1_000' == 1000`, `false`}, {`'1,000' == 1000`, `false`}, {`'0X10' == 16`, `false`}, {`'-0x10' == -16`, `false`},
		{`'0o17' == 15`, `true`}, {`'0o18' == 15`, `false`}, {`'0b1' == 1`, `false`}, {`'0x' == 0`, `false`},
		{`'0xFFFFFFFF' == -1`, `true`}, {`'0x100000000' == 4294967296`, `false`}, {`'0x0000000000ff' == 255`, `true`},
		{`'1e400' == Infinity`, `true`}, {`'1e' == 1`, `false`}, {`'.' == 0`, `false`}, {"'\u00a01\u3000' == 1", `true`},
		{`'${{ 1 == 1 }}' == true`, `false`}, {`list == NaN`, `false`}, {`list == 0`, `false`}, {`no == none`, `false`},
	}.check(t)
}

func TestNumberLiterals(t *testing.T) {
	values{
		{`-1`, `-1`}, {`+1`, `1`}, {`.5`, `0.5`}, {`5.`, `5`}, {`-.5`, `-0.5`}, {`0xfF`, `255`}, {`0o17`, `15`},
		{`1e3`, `1000`}, {`1E-2`, `0.01`}, {`-0`, `0`}, {`NaN`, `"NaN"`}, {`Infinity`, `"Infinity"`}, {`-Infinity`, `"-Infinity"`},
		{`1e999`, `"Infinity"`}, {`1e21`, `1e+21`}, {`0.1`, `0.1`}, {`9007199254740993`, `9007199254740992`},
		{`0xFFFFFFFF`, `-1`},
	}.check(t)
}

func TestNumbersAsText(t *testing.T) {
	values{
		{`format('{0}', 1.0)`, `"1"`}, {`format('{0}', -0.0)`, `"0"`}, {`format('{0}', 0.1)`, `"0.1"`},
		{`format('{0}', 123456789012345)`, `"123456789012345"`}, {`format('{0}', 1234567890123456)`, `"1.23456789012346E+15"`},
		{`format('{0}', 1e15)`, `"1E+15"`}, {`format('{0}', 1e100)`, `"1E+100"`}, {`format('{0}', 0.0001)`, `"0.0001"`},
		{`format('{0}', 0.00001)`, `"1E-05"`}, {`format('{0}', -0.000012345)`, `"-1.2345E-05"`},
		{`format('{0}', 0.84551240822557006)`, `"0.84551240822557"`}, {`format('{0}', 999999999999999.9)`, `"1E+15"`},
		{`format('{0}', 99999999999999.95)`, `"100000000000000"`}, {`format('{0}', 3.14159265358979312)`, `"3.14159265358979"`},
		{`format('{0} {1} {2}', NaN, Infinity, -Infinity)`, `"NaN Infinity -Infinity"`},
		{`toJSON(1e21)`, `"1E+21"`}, {`toJSON(NaN)`, `"NaN"`},
	}.check(t)
}

func TestSemantics23Functions(t *testing.T) {
	values{
		{`format('{{{0}}}', 'x')`, `"{x}"`}, {`format('{0}-{1}-{0}', 'a', 'b')`, `"a-b-a"`}, {`format('')`, `""`},
		{`format(null, 1)`, `""`}, {`format('{0}{1}{2}', null, true, list)`, `"trueArray"`}, {`format('{0:}', 1)`, `"1"`},
		{`format('no', fromJSON('{'))`, `"no"`}, {`format('{00}', 'a')`, `"a"`}, {`format(12)`, `"12"`},
		{`join(list)`, `"zero,one,two"`}, {`join(list, '; ')`, `"zero; one; two"`}, {`join(list, list)`, `"zero,one,two"`},
		{`join(list, null)`, `"zeroonetwo"`}, {`join(mixed, '|')`, `"|true|1.5|s|Array|Array|Object|Object"`},
		{`join('a', '-')`, `"a"`}, {`join(12)`, `"12"`}, {`join(none)`, `""`}, {`join(object)`, `""`},
		{`join(fromJSON('["a"]'), fromJSON('{'))`, `"a"`},
		{`toJSON(none)`, `"[]"`}, {`toJSON(empty)`, `"{}"`}, {`toJSON('a"<&>')`, `"\"a\\\"<&>\""`},
		{`toJSON(object)`, `"{\n  \"b\": 1,\n  \"A\": {\n    \"deep\": [\n      1,\n      2\n    ]\n  },\n  \"5\": \"five\",\n  \"\": \"empty\"\n}"`},
		{"toJSON('\t\r\n\b\f\u0001\u007f\u0085\u2028é')", `"\"\\t\\r\\n\\b\\f\\u0001` + "\u007f" + `\\u0085\\u2028é\""`},
		{`fromJSON('{"z":1,"a":[null,true,"x"]}')`, `{"z":1,"a":[null,true,"x"]}`}, {`fromJSON(12)`, `12`},
		{`fromJSON(true)`, `true`}, {`fromJSON(' 1 ')`, `1`}, {`fromJSON('"\u00e9"')`, `"é"`},
		{`fromJSON('{"a":1,"B":2,"A":3}')`, `{"a":3,"B":2}`}, {`fromJSON('1e400')`, `"Infinity"`},
		{`fromJSON(toJSON(object)).a.DEEP[1]`, `2`},
		// More than JSON, as the runner's reader takes it.
		{`fromJSON('[1, 2,]')`, `[1,2]`}, {`fromJSON('{"a": 1,}')`, `{"a":1}`}, {`fromJSON('[1,,2]')`, `[1,"",2]`},
		{`fromJSON('{a: 1, $b_2: 2}')`, `{"a":1,"$b_2":2}`}, {`fromJSON('{''a'': ''b"''}')`, `{"a":"b\""}`},
		{"fromJSON('[1, // one\n 2 /* two */]')", `[1,2]`}, {"fromJSON('\"a\nb\"')", `"a\nb"`},
		{`fromJSON('NaN')`, `"NaN"`}, {`fromJSON('[Infinity, -Infinity]')`, `["Infinity","-Infinity"]`},
		{`fromJSON('[0x10, 010, .5, 1., -01]')`, `[16,8,0.5,1,-1]`}, {`fromJSON('undefined')`, `""`},
		{`fromJSON('"\ud83d\ude00 \ud83d \/"')`, `"😀 � /"`}, {`fromJSON('1 2')`, `1`}, {`fromJSON('{} rest')`, `{}`},
		{`case(true, 1, 2)`, `1`}, {`case(false, 1, 2)`, `2`}, {`case(false, fromJSON('{'), true, 'b', fromJSON('{'))`, `"b"`},
		{`case(number > 10, 'big', 'small')`, `"big"`}, {`CASE(true, list, 1)[1]`, `"one"`},
		{`success() && always() && !failure() && !cancelled()`, `true`}, {`SUCCESS ()`, `true`},
	}.check(t)
}

func TestSemantics25WildcardsAndMissingKeys(t *testing.T) {
	values{
		{`text.*`, `[]`}, {`no[*]`, `[]`}, {`number.a`, `null`}, {`object.missing`, `null`}, {`object.missing.deeper`, `null`},
		{`format('{0}', object.missing)`, `""`}, {`list[3]`, `null`}, {`list[-1]`, `null`}, {`list[1.9]`, `"one"`},
		{`list['1']`, `"one"`}, {`list['x']`, `null`}, {`list[null]`, `"zero"`}, {`list[true]`, `"one"`}, {`list[none]`, `null`},
		{`list.one`, `null`}, {`object[5]`, `"five"`}, {`object[null]`, `"empty"`}, {`object[none]`, `null`}, {`object.a.deep[0]`, `1`},
		{`object['a']['DEEP'][0]`, `1`}, {`list.*`, `["zero","one","two"]`}, {`object.*`, `[1,{"deep":[1,2]},"five","empty"]`},
		{`object.*.deep`, `[[1,2]]`}, {`object.*.deep[0]`, `[1]`}, {`nested.*.*`, `["a0","a1","b0","v"]`}, {`nested.*[1]`, `["a1"]`},
		{`nested[*][0]`, `["a0","b0"]`}, {`nested.*.K`, `["v"]`}, {`(nested.*)[0]`, `["a0","b0"]`}, {`list.*[0]`, `[]`},
		{`case(true, nested.*, 0)[0]`, `["a0","b0"]`}, {`no.*.a[1].b`, `[]`},
		{`github.event.issue.labels.*.name`, `["bug","ui"]`}, {`contains(github.event.issue.labels.*.name, 'UI')`, `true`},
		{`join(github.event.issue.labels.*.id)`, `"7"`}, {`github . ref`, `"refs/heads/main"`}, {`GitHub.REF`, `"refs/heads/main"`},
		{`object['*']`, `null`}, {`list[*]['x']`, `[]`}, {`text[fromJSON('{')]`, `null`}, {`list[* == '*']`, `"one"`},
	}.check(t)
}

func TestPrecedence(t *testing.T) {
	values{
		{`!false == true`, `true`}, {`!(false == true)`, `true`}, {`1 < 2 == true`, `true`}, {`true == 1 < 2`, `true`},
		{`1 == 1 && 2 == 3 || 4 == 4`, `true`}, {`true || false && false`, `true`}, {`(true || false) && false`, `false`},
		{`3 > 2 > 1`, `false`}, {`1 == 1 == 1`, `true`}, {`2 == 2 != false`, `true`}, {`!!!true`, `false`},
		{`!object.missing && 'x'`, `"x"`}, {"1\n==\t1", `true`}, {`((((1))))`, `1`}, {`'it''s'`, `"it's"`}, {`''''`, `"'"`},
		{``, `null`}, {`  `, `null`}, {`'a' == !0 == 'a'`, `false`},
	}.check(t)
}

// SEMANTICS 5, 22, 23: what is refused, in GitHub's words and at its place.
func TestErrors(t *testing.T) {
	const deep = MaxDepth - 1
	for _, c := range []struct{ src, message string }{
		{`1 +`, `Unexpected symbol: '+'. Located at position 3 within expression: 1 +`},
		{`1 + 2`, `Unexpected symbol: '+'. Located at position 3`},
		{`5-3`, `Unexpected symbol: '5-3'. Located at position 1`},
		{`"a"`, `Unexpected symbol: '"a"'. Located at position 1`},
		{`'a`, `Unexpected symbol: ''a'. Located at position 1`},
		{`text = 'a'`, `Unexpected symbol: '='. Located at position 6`},
		{`text & 1`, `Unexpected symbol: '&'. Located at position 6`},
		{`text === 1`, `Unexpected symbol: '='. Located at position 8`},
		{`a*b`, `Unexpected symbol: 'a*b'. Located at position 1`},
		{`list.*b`, `Unexpected symbol: 'b'. Located at position 7`},
		{`list.1`, `Unexpected symbol: '1'. Located at position 6`},
		{`list[]`, `Unexpected symbol: ']'. Located at position 6`},
		{`list[1`, `Unexpected end of expression: '1'. Located at position 6`},
		{`(1`, `Unexpected end of expression: '1'. Located at position 2`},
		{`1)`, `Unexpected symbol: ')'. Located at position 2`},
		{`()`, `Unexpected symbol: ')'. Located at position 2`},
		{`(list]`, `Unexpected symbol: ']'. Located at position 6`},
		{`1 ==`, `Unexpected end of expression: '=='. Located at position 3`},
		{`== 1`, `Unexpected symbol: '=='. Located at position 1`},
		{`!`, `Unexpected end of expression: '!'. Located at position 1`},
		{`true.x`, `Unexpected symbol: '.'. Located at position 5`},
		{`'a'.x`, `Unexpected symbol: '.'. Located at position 4`},
		{`'a'[0]`, `Unexpected symbol: '['. Located at position 4`},
		{`null()`, `Unexpected symbol: '('. Located at position 5`},
		{`github.ref()`, `Unexpected symbol: '('. Located at position 11`},
		{`1 2`, `Unexpected symbol: '2'. Located at position 3`},
		{`1, 2`, `Unexpected symbol: ','. Located at position 2`},
		{`join(list,)`, `Unexpected symbol: ')'. Located at position 11`},
		{`join(,list)`, `Unexpected symbol: ','. Located at position 6`},
		{`join(list`, `Unexpected end of expression: 'list'. Located at position 6`},
		{`join(`, `Unexpected end of expression: '('. Located at position 5`},
		{`True`, `Unrecognized named-value: 'True'. Located at position 1`},
		{`nan`, `Unrecognized named-value: 'nan'. Located at position 1`},
		{`false && nothing.x`, `Unrecognized named-value: 'nothing'. Located at position 10`},
		{`nothing +`, `Unrecognized named-value: 'nothing'. Located at position 1`},
		{`'😀é' == foo`, `Unrecognized named-value: 'foo'. Located at position 10`},
		{`false && upper('a')`, `Unrecognized function: 'upper'. Located at position 10`},
		{`contains('a')`, `Too few parameters supplied: 'contains'. Located at position 1`},
		{`contains('a', 'b', 'c')`, `Too many parameters supplied: 'contains'. Located at position 1`},
		{`success(1)`, `Too many parameters supplied: 'success'`},
		{`toJSON()`, `Too few parameters supplied: 'toJSON'`},
		{`case(true, 1)`, `Too few parameters supplied: 'case'`},
		{`case(true, 1, false, 2)`, `Even number of parameters supplied, requires an odd number of parameters: 'case'. Located at position 1`},
		{`case(1, 2, 3)`, `case predicate must evaluate to a boolean value`},
		{`case('true', 2, 3)`, `case predicate must evaluate to a boolean value`},
		{`format('{0')`, `The following format string is invalid: {0`},
		{`format('{', 1)`, `The following format string is invalid: {`},
		{`format('}', 1)`, `The following format string is invalid: }`},
		{`format('{}', 1)`, `The following format string is invalid: {}`},
		{`format('{x}', 1)`, `The following format string is invalid: {x}`},
		{`format('{ 0}', 1)`, `The following format string is invalid: { 0}`},
		{`format('{256}', 1)`, `The following format string is invalid: {256}`},
		{`format('{1}', 1)`, `The following format string references more arguments than were supplied: {1}`},
		{`format('{0:X}', 1)`, `The format specifiers 'X' are not valid for objects of type 'Number'`},
		{`fromJSON('')`, `Error parsing fromJson: `},
		{`fromJSON('{')`, `Error parsing fromJson: `},
		{`fromJSON('hello')`, `Error parsing fromJson: expected a value, found 'h' at byte 0`},
		{`fromJSON('[1 2]')`, `Error parsing fromJson: expected ',' or ']', found '2' at byte 3`},
		{`fromJSON('{"a" 1}')`, `Error parsing fromJson: expected ':', found '1' at byte 5`},
		{`fromJSON('{,}')`, `Error parsing fromJson: expected a name, found ',' at byte 1`},
		{`fromJSON('{"a":}')`, `Error parsing fromJson: expected a value, found '}' at byte 5`},
		{`fromJSON('"a')`, `Error parsing fromJson: the text at byte 0 has no closing "`},
		{`fromJSON('"\x"')`, `Error parsing fromJson: expected an escape`},
		{`fromJSON('"\u12"')`, `Error parsing fromJson: expected four hexadecimal digits`},
		{`fromJSON('[1 /* x')`, `Error parsing fromJson: the comment at byte 3 has no end`},
		{`fromJSON('+1')`, `Error parsing fromJson: expected a value`},
		{`fromJSON('1-')`, `Error parsing fromJson: "1-" at byte 0 is no number`},
		{`fromJSON('12m')`, `Error parsing fromJson: expected the end of a number`},
		{`fromJSON('08')`, `Error parsing fromJson: "08" at byte 0 is no number`},
		{`fromJSON('truer')`, `Error parsing fromJson: expected a value`},
		{`fromJSON('// only')`, `Error parsing fromJson: there is no value`},
		{`fromJSON(list)`, `Error parsing fromJson: `},
		{`fromJSON('` + strings.Repeat("[", 101) + strings.Repeat("]", 101) + `')`, `nested deeper than 100 levels`},
		{strings.Repeat("!", deep) + "!1", `Exceeded max expression depth 50`},
		{"no" + strings.Repeat(".a", deep+1), `Exceeded max expression depth 50`},
		{"'" + strings.Repeat("a", MaxLength-1) + "'", `Exceeded max expression length 21000`},
	} {
		env, names := contextEnv(t, contexts)
		e, err := ParseWith(c.src, names)
		if err == nil {
			_, err = e.Eval(env)
		}
		var own *Error
		if !errors.As(err, &own) || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%.60s: error %v, want %s", c.src, err, c.message)
		}
	}
}

func TestLimitsAreInclusive(t *testing.T) {
	values{
		{strings.Repeat("!", MaxDepth-1) + "1", `false`}, {"no" + strings.Repeat("[1]", MaxDepth-1), `null`},
		{"1" + strings.Repeat(" && 1", 200), `1`}, {"(1 || (2 || (3 || 4)))", `1`},
		{strings.Repeat("(", 500) + "1" + strings.Repeat(")", 500), `1`},
		{"'" + strings.Repeat("ä", MaxLength-3) + "'", `"` + strings.Repeat("ä", MaxLength-3) + `"`},
	}.check(t)
}

func TestMemoryIsBounded(t *testing.T) {
	env, names := contextEnv(t, contexts)
	src := "'0123456789'"
	for range 20 {
		src = "format('{0}{0}{0}{0}{0}{0}{0}{0}', " + src + ")"
	}
	for _, src := range []string{src, "join(fromJSON(format('[{0}]', '\"a\"')), '') && " + src} {
		e, err := ParseWith(src, names)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = e.Eval(env); err == nil || !strings.Contains(err.Error(), "The maximum allowed memory size was exceeded") {
			t.Errorf("error %v, want the memory limit", err)
		}
	}
	small := Env{MaxBytes: 1 << 10}
	e, err := Parse("format('{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}', '" + strings.Repeat("a", 100) + "')")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Eval(small); err == nil {
		t.Error("no error with a limit of 1 KiB")
	}
	if _, err := e.Eval(Env{}); err != nil {
		t.Error(err)
	}
}

func TestUnknownNamesAtEvaluation(t *testing.T) {
	for _, src := range []string{"foo.bar", "hashFiles('x')", "success()"} {
		e, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		var own *Error
		if _, err := e.Eval(Env{}); !errors.As(err, &own) || !strings.HasPrefix(own.Message, "Unrecognized ") {
			t.Errorf("%s: %v", src, err)
		}
	}
	e, _ := Parse("true || foo.bar")
	if v, err := e.Eval(Env{}); err != nil || v != true {
		t.Errorf("a context that is not reached: %v, %v", v, err)
	}
}

func TestFunctionOfTheCaller(t *testing.T) {
	env := Env{Function: func(name string) (Func, bool) {
		return Func{Min: 1, Max: 2, Call: func(args []Value) (Value, error) {
			if args[0] == "bad" {
				return nil, errors.New("no such pattern")
			}
			return name + String(args[0]), nil
		}}, name == "hashfiles"
	}}
	for src, want := range map[string]string{
		"hashFiles('a')": "hashfilesa", "hashFiles(fromJSON('[]'), 'b')": "hashfilesArray",
		"hashFiles('bad')":         "no such pattern. Located at position 1 within expression: hashFiles('bad')",
		"hashFiles('a', 'b', 'c')": "Too many parameters supplied: 'hashFiles'. Located at position 1 within expression: hashFiles('a', 'b', 'c')",
	} {
		e, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		v, err := e.Eval(env)
		if err != nil {
			v = err.Error()
		}
		if v != want {
			t.Errorf("%s: %v, want %v", src, v, want)
		}
	}
}

func TestHints(t *testing.T) {
	for src, hint := range map[string]string{
		`"a"`: "single quotes", `a = 1`: "==", `contain('a', 'b')`: "did you mean contains?", `githb.ref`: "did you mean github?",
		`join(list`: "( is not closed", `a[1`: "[ is not closed", `startsWith('a')`: "write startsWith(", `1 + 2`: "no arithmetic",
		`'a' 'b'`: "side by side", `'a`: "the string is not closed",
	} {
		_, err := ParseWith(src, Names{Context: func(name string) bool { return name != "githb" }})
		var own *Error
		if !errors.As(err, &own) || !strings.Contains(own.Hint, hint) {
			t.Errorf("%s: %#v, want a hint with %q", src, err, hint)
		}
	}
}
