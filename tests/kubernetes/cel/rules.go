// With the argument "schemas" each line is {"schema": SCHEMA, "root": BOOL}, and the answer is what compiling the rules at its root
// found; with "definitions" each is a CustomResourceDefinition, and the answer is the errors for which kube-apiserver refuses it.
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	celschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// compiled is what Kubernetes finds out about one rule: why it is refused, and what it may cost.
type compiled struct {
	Error        string `json:"error,omitempty"`
	Cost         uint64 `json:"cost"`
	Cardinality  uint64 `json:"cardinality"`
	Old          bool   `json:"old"`
	MessageError string `json:"messageError,omitempty"`
	MessageCost  uint64 `json:"messageCost"`
}

// judgeSchema compiles the rules at the root of a schema.
func judgeSchema(text []byte) (answered any) {
	defer func() {
		if fell := recover(); fell != nil {
			answered = map[string]string{"fell": fmt.Sprint(fell)}
		}
	}()
	var asked struct {
		Schema apiextensionsv1.JSONSchemaProps `json:"schema"`
		Root   bool                            `json:"root"`
	}
	if err := json.Unmarshal(text, &asked); err != nil {
		return map[string]string{"fell": err.Error()}
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&asked.Schema, &internal, nil); err != nil {
		return map[string]string{"fell": err.Error()}
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		return map[string]string{"fell": err.Error()}
	}
	declared := model.SchemaDeclType(structural, asked.Root)
	environments := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	results, err := celschema.Compile(structural, declared, celconfig.PerCallLimit, environments, celschema.NewExpressionsEnvLoader())
	if err != nil {
		return map[string]string{"fell": err.Error()}
	}
	found := make([]compiled, 0, len(results))
	for _, result := range results {
		one := compiled{Cost: result.MaxCost, Cardinality: result.MaxCardinality, Old: result.UsesOldSelf, MessageCost: result.MessageExpressionMaxCost}
		if result.Error != nil {
			one.Error = result.Error.Detail
		}
		if result.MessageExpressionError != nil {
			one.MessageError = result.MessageExpressionError.Detail
		}
		found = append(found, one)
	}
	return map[string]any{"rules": found}
}

// judgeDefinition gives the errors of a whole definition as "path: words".
func judgeDefinition(text []byte) (answered any) {
	defer func() {
		if fell := recover(); fell != nil {
			answered = map[string]string{"fell": fmt.Sprint(fell)}
		}
	}()
	var definition apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(text, &definition); err != nil {
		return map[string]string{"fell": err.Error()}
	}
	scheme := runtime.NewScheme()
	_ = apiextensionsv1.AddToScheme(scheme)
	_ = apiextensions.AddToScheme(scheme)
	scheme.Default(&definition)
	var internal apiextensions.CustomResourceDefinition
	if err := scheme.Convert(&definition, &internal, nil); err != nil {
		return map[string]string{"fell": err.Error()}
	}
	errors := []string{}
	for _, each := range validation.ValidateCustomResourceDefinition(context.Background(), &internal) {
		errors = append(errors, each.Error())
	}
	return map[string]any{"errors": errors}
}
