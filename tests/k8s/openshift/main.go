// Decode manifests with the types of OpenShift, and print the group, version and kind of each object.
//
// usage: decode-openshift FILE...
//
// An unknown kind, an unknown or doubled member and a wrong type are errors. tests/setup/kubernetes builds this.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	buildv1 "github.com/openshift/api/build/v1"
	imagev1 "github.com/openshift/api/image/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func decode(path string, decoder runtime.Decoder) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	documents := yaml.NewYAMLReader(bufio.NewReader(file))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		_, kind, err := decoder.Decode(text, nil, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		fmt.Println(kind)
	}
}

func main() {
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{buildv1.Install, imagev1.Install} {
		if err := install(scheme); err != nil {
			panic(err)
		}
	}
	options := json.SerializerOptions{Yaml: true, Strict: true}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, options)
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: decode-openshift FILE...")
		os.Exit(2)
	}
	for _, path := range os.Args[1:] {
		if err := decode(path, decoder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
