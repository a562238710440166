// What GitOps tools make of an object: kstatus by the library of cli-utils, and a health script by the Lua that Argo CD runs.
//
// Reads one object as JSON on standard input and prints {"status": …, "message": …}; with an argument, that of a Lua file, which
// sees the object as `obj`, as in Argo CD.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type answer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	text, err := io.ReadAll(os.Stdin)
	must(err)
	object := &unstructured.Unstructured{}
	must(object.UnmarshalJSON(text))
	var found answer
	if len(os.Args) > 1 {
		found = health(os.Args[1], object.Object)
	} else {
		result, err := status.Compute(object)
		must(err)
		found = answer{string(result.Status), result.Message}
	}
	must(json.NewEncoder(os.Stdout).Encode(found))
}

func health(script string, object map[string]any) answer {
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", value(state, object))
	text, err := os.ReadFile(script)
	must(err)
	must(state.DoString(string(text)))
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		must(fmt.Errorf("%s returns no table", script))
	}
	return answer{lua.LVAsString(table.RawGetString("status")), lua.LVAsString(table.RawGetString("message"))}
}

func value(state *lua.LState, of any) lua.LValue {
	switch of := of.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, item := range of {
			table.RawSetString(key, value(state, item))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range of {
			table.Append(value(state, item))
		}
		return table
	case string:
		return lua.LString(of)
	case int64:
		return lua.LNumber(of)
	case float64:
		return lua.LNumber(of)
	case bool:
		return lua.LBool(of)
	}
	return lua.LNil
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
