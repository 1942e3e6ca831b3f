// Command recorder answers strategic merge patches of Deployments with Kubernetes' own strategicpatch, one JSON object
// a line, so that record.py can keep what it says for the tests to be held against.
//
//	cd tests/schema/strategic_merge && go build -o /tmp/recorder . && python record.py /tmp/recorder
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var request struct{ Original, Patch json.RawMessage }
		if err := json.Unmarshal(line, &request); err != nil {
			panic(err)
		}
		answer := map[string]interface{}{}
		merged, err := strategicpatch.StrategicMergePatch(request.Original, request.Patch, appsv1.Deployment{})
		if err != nil {
			answer["error"] = err.Error()
		} else {
			answer["object"] = json.RawMessage(merged)
		}
		text, _ := json.Marshal(answer)
		fmt.Println(string(text))
	}
}
