#!/usr/bin/env bash
# runtime-spec 1.3.0 of the Open Container Initiative with jsonschema 4.26.0, and with gojsonschema 1.2.0.
#
# The specification of config.json comes with a JSON schema. Since 1.3.0 a virtual machine can be given interrupts of the
# host, vm.hwConfig.irqs, as an array of numbers. The schema of these numbers is the reference "#definitions/uint32", in
# which the slash before "definitions" is missing. Two validators do not agree about that:
#
# - gojsonschema, which the specification's own validate.go uses, follows it, and accepts the document;
# - jsonschema of Python raises InvalidAnchor. It is no ValidationError, and comes only if the document has interrupts, so
#   a program that has checked other documents for long fails at the first of these.
#
# This program validates one document without interrupts and one with them, prints what both say, and fails if that
# changes.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check jsonschema==4.26.0 referencing==0.37.0
export GOPATH=$directory/go GOFLAGS=-modcacherw
mkdir validate
cd validate
go mod init validate 2>/dev/null
go get github.com/opencontainers/runtime-spec@v1.3.0 github.com/xeipuuv/gojsonschema@v1.2.0 2>/dev/null
schema=$GOPATH/pkg/mod/github.com/opencontainers/runtime-spec@v1.3.0/schema
cp "$schema/validate.go" .
go build -o ../validator .
cd ..
cat >check.py <<'PYTHON'
import json
import pathlib
import sys

import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4

schemas = pathlib.Path(sys.argv[1])


def retrieve(uri):
    return Resource.from_contents(json.loads((schemas / uri.rpartition("/")[2]).read_text()), DRAFT4)


schema = {"$ref": (schemas / "config-schema.json").as_uri()}
try:
    jsonschema.Draft4Validator(schema, registry=Registry(retrieve=retrieve)).validate(json.load(sys.stdin))
    print("valid")
except Exception as error:
    print(type(error.__cause__ or error).__name__, isinstance(error, jsonschema.ValidationError))
PYTHON
for more in '' ', "irqs": [11, 12]'; do
    echo '{"ociVersion": "1.3.0", "vm": {"kernel": {"path": "/kernel"}, "hwConfig": {"vcpus": 1'"$more"'}}}' >config.json
    ./validator "$schema/config-schema.json" config.json
    venv/bin/python check.py "$schema" <config.json
done | tee output
diff - output <<'EXPECTED' || { echo 'The behaviour has changed.' >&2; exit 1; }
The document is valid
valid
The document is valid
InvalidAnchor False
EXPECTED
