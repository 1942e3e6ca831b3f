// Judges device selectors, and rules of definitions (`rules.go`), with Kubernetes' own compiler and evaluator.
//
// One JSON object a line on standard input, {"expression": TEXT, "devices": {NAME: DEVICE}}, with devices as a ResourceSlice has
// them; one answer a line, {"compileError": TEXT} or {"results": {NAME: true, false or "error: ..."}}, as `modelplane match` gives it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

type device struct {
	Driver     string                                                    `json:"driver"`
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

type question struct {
	Expression string            `json:"expression"`
	Devices    map[string]device `json:"devices"`
}

type answer struct {
	CompileError string         `json:"compileError,omitempty"`
	Results      map[string]any `json:"results,omitempty"`
}

// judge answers one question. Kubernetes falls over some texts, such as a map with a key of bytes; an API server then refuses them.
func judge(asked question) (answered answer) {
	defer func() {
		if fell := recover(); fell != nil {
			answered = answer{CompileError: fmt.Sprint(fell)}
		}
	}()
	compiled := cel.GetCompiler(cel.Features{}).CompileCELExpression(asked.Expression, cel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return answer{CompileError: compiled.Error.Error()}
	}
	results := make(map[string]any, len(asked.Devices))
	for name, one := range asked.Devices {
		matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device{
			Driver: one.Driver, Attributes: one.Attributes, Capacity: one.Capacity,
		})
		if err != nil {
			results[name] = "error: " + err.Error()
		} else {
			results[name] = matches
		}
	}
	return answer{Results: results}
}

// functions gives every overload of the dialect in the order in which it is tried, as "recv.(args) -> result" by name.
func functions() map[string][]string {
	environment := cel.GetCompiler(cel.Features{}).CompileCELExpression("true", cel.Options{}).Environment
	found := map[string][]string{}
	for name, function := range environment.Functions() {
		for _, overload := range function.OverloadDecls() {
			arguments := make([]string, 0, len(overload.ArgTypes()))
			for _, argument := range overload.ArgTypes() {
				arguments = append(arguments, argument.String())
			}
			signature := "(" + strings.Join(arguments, ", ") + ") -> " + overload.ResultType().String()
			if overload.IsMemberFunction() {
				signature = arguments[0] + ".(" + strings.Join(arguments[1:], ", ") + ") -> " + overload.ResultType().String()
			}
			found[name] = append(found[name], signature)
		}
	}
	return found
}

// answered is the answer to one line of a kind of question.
func answered(kind string, line []byte) any {
	switch kind {
	case "schemas":
		return judgeSchema(line)
	case "definitions":
		return judgeDefinition(line)
	}
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return judge(asked)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "functions" {
		_ = json.NewEncoder(os.Stdout).Encode(functions())
		return
	}
	kind := ""
	if len(os.Args) > 1 {
		kind = os.Args[1]
	}
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	decoder := json.NewDecoder(lines)
	for decoder.More() {
		var line json.RawMessage
		if err := decoder.Decode(&line); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := encoder.Encode(answered(kind, line)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	out.Flush()
}
