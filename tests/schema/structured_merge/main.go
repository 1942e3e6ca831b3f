// Command recorder answers apply and update requests with Kubernetes' own structured-merge-diff, one JSON object a
// line, so that record.py can keep what it says for the tests of the field manager to be held against.
//
//	cd tests/schema/structured_merge && go build -o /tmp/recorder . && python record.py /tmp/recorder
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

const schemaYAML = `types:
- name: root
  map:
    fields:
    - {name: apiVersion, type: {scalar: string}}
    - {name: kind, type: {scalar: string}}
    - name: metadata
      type:
        map:
          fields:
          - {name: name, type: {scalar: string}}
          - name: labels
            type: {map: {elementType: {scalar: string}}}
    - {name: spec, type: {namedType: spec}}
- name: spec
  map:
    fields:
    - {name: "n", type: {scalar: numeric}}
    - {name: atomic, type: {list: {elementType: {scalar: string}, elementRelationship: atomic}}}
    - {name: set, type: {list: {elementType: {scalar: string}, elementRelationship: associative}}}
    - name: items
      type:
        list:
          elementRelationship: associative
          keys: [name]
          elementType: {namedType: item}
    - name: whole
      type:
        map:
          elementRelationship: atomic
          fields:
          - {name: a, type: {scalar: string}}
          - {name: b, type: {scalar: string}}
    - {name: map, type: {map: {elementType: {scalar: string}}}}
    - {name: free, type: {namedType: __untyped_deduced_}}
- name: item
  map:
    fields:
    - {name: name, type: {scalar: string}}
    - {name: v, type: {scalar: numeric}}
    - {name: tags, type: {list: {elementType: {scalar: string}, elementRelationship: associative}}}
    - name: sub
      type:
        map:
          fields:
          - {name: x, type: {scalar: numeric}}
          - {name: "y", type: {scalar: numeric}}
- name: __untyped_atomic_
  scalar: untyped
  list: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
  map: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
- name: __untyped_deduced_
  scalar: untyped
  list: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
  map: {elementType: {namedType: __untyped_deduced_}, elementRelationship: separable}
`

type conv struct{}

func (conv) Convert(o *typed.TypedValue, v fieldpath.APIVersion) (*typed.TypedValue, error) {
	return o, nil
}
func (conv) IsMissingVersionError(error) bool { return false }

type op struct {
	Op, Manager string
	Force       bool
	Object      map[string]interface{}
	Reset       bool
}
type out struct {
	Object    interface{}                `json:"object"`
	Managers  map[string]json.RawMessage `json:"managers"`
	Conflicts []string                   `json:"conflicts"`
	Error     string                     `json:"error"`
}

func main() {
	parser, err := typed.NewParser(typed.YAMLObject(schemaYAML))
	if err != nil {
		panic(err)
	}
	pt := parser.Type("root")
	up := merge.Updater{Converter: conv{}}
	strip := fieldpath.NewSet(fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"), fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("metadata", "name"))
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	var live *typed.TypedValue
	managers := fieldpath.ManagedFields{}
	v := fieldpath.APIVersion("v1")
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var o op
		if e := json.Unmarshal(line, &o); e != nil {
			panic(e)
		}
		if o.Reset {
			managers = fieldpath.ManagedFields{}
			live, _ = pt.FromUnstructured(map[string]interface{}{"apiVersion": "example.com/v1", "kind": "Widget"})
		}
		res := out{Managers: map[string]json.RawMessage{}, Conflicts: []string{}}
		opts := []typed.ValidationOptions{}
		if o.Op == "update" {
			opts = append(opts, typed.AllowDuplicates)
		}
		obj, err := pt.FromUnstructured(o.Object, opts...)
		if err != nil {
			res.Error = err.Error()
		} else {
			copied := managers.Copy()
			doStrip := func(name string) {
				if vs, ok := copied[name]; ok {
					s := vs.Set().Difference(strip)
					if s.Empty() {
						delete(copied, name)
					} else {
						copied[name] = fieldpath.NewVersionedSet(s, vs.APIVersion(), vs.Applied())
					}
				}
			}
			if o.Op == "apply" {
				name := "Apply:" + o.Manager
				n, m, err := up.Apply(live, obj, v, copied, name, o.Force)
				if err != nil {
					if c, ok := err.(merge.Conflicts); ok {
						for _, x := range c {
							res.Conflicts = append(res.Conflicts, x.Manager+" "+x.Path.String())
						}
						sort.Strings(res.Conflicts)
					} else {
						res.Error = err.Error()
					}
				} else {
					copied = m
					doStrip(name)
					managers = copied
					if n != nil {
						live = n
					}
				}
			} else {
				n, m, err := up.Update(live, obj, v, copied, "self")
				if err != nil {
					res.Error = err.Error()
				} else {
					copied = m
					doStrip("self")
					if vs, ok := copied["self"]; ok {
						name := "Update:" + o.Manager
						delete(copied, "self")
						if p, ok := copied[name]; ok {
							copied[name] = fieldpath.NewVersionedSet(vs.Set().Union(p.Set()), v, false)
						} else {
							copied[name] = vs
						}
					}
					managers = copied
					live = n
				}
			}
		}
		res.Object = live.AsValue().Unstructured()
		for k, vs := range managers {
			b, _ := vs.Set().ToJSON()
			res.Managers[k] = b
		}
		b, _ := json.Marshal(res)
		fmt.Fprintln(w, string(b))
		w.Flush()
	}
}
