// Command recorder prunes, defaults and validates objects with Kubernetes' own packages, one JSON object a line, so
// that record.py can keep what they say for the tests to be held against.
//
//	cd tests/schema/structural && go build -o /tmp/recorder . && python record.py /tmp/recorder
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

type in struct {
	Schema json.RawMessage
	Object json.RawMessage
}

func main() {
	r := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		var i in
		if err := json.Unmarshal(line, &i); err != nil {
			panic(err)
		}
		res := map[string]interface{}{}
		var v1s apiextv1.JSONSchemaProps
		var s apiextensions.JSONSchemaProps
		json.Unmarshal(i.Schema, &v1s)
		if err := apiextv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1s, &s, nil); err != nil {
			panic(err)
		}
		ss, err := structuralschema.NewStructural(&s)
		if err != nil {
			res["error"] = err.Error()
		} else {
			var obj map[string]interface{}
			utiljson.Unmarshal(i.Object, &obj)
			opts := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
			unknown := pruning.PruneWithOptions(obj, ss, false, opts)
			res["unknown"] = unknown
			defaulting.PruneNonNullableNullsWithoutDefaults(obj, ss)
			defaulting.Default(obj, ss)
			res["object"] = obj
			validator, _, err := validation.NewSchemaValidator(&s)
			if err != nil {
				res["error"] = err.Error()
			} else {
				errs := validation.ValidateCustomResource(nil, obj, validator)
				errs = append(errs, listtype.ValidateListSetsAndMaps(nil, ss, obj)...)
				list := []string{}
				for _, e := range errs {
					list = append(list, e.Error())
				}
				res["errors"] = list
			}
		}
		b, _ := json.Marshal(res)
		fmt.Println(string(b))
	}
}
