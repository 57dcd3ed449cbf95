#!/usr/bin/env bats
# The pages of contrib/docs/pages/reference name everything that the programs offer: commands, options, keys, errors.
# once: pages and programs are the same in both modes

load ../lib/bundle.bash

TOP=$TESTS/..
PAGES=$TOP/contrib/docs/pages/reference
PACKAGE=$TOP/contrib/python/src/pysbx

# Fail if these pages together lack one of the words of standard input as code. For example, `--bundle DIR` contains the
# word --bundle. Fail without words, because then nothing was compared.
page_names() {
    local word bad=0 count=0 code
    code=$(grep -oh '`[^`]*`' "${@/#/$PAGES/}" | tr -s '`=[]()|, ":' '\n')
    while read -r word; do
        count=$((count + 1))
        grep -qxF -- "$word" <<<"$code" || { echo "$* lacks $word" && bad=1; }
    done
    ((count)) || { echo "no words for $*" && return 1; }
    return "$bad"
}

# Print the keys of a JSON object; those of nested objects as "outer.inner".
keys() {
    python3 -c '
import json, sys
for name, value in json.load(open(sys.argv[1])).items():
    print(*(f"{name}.{inner}" for inner in value) if isinstance(value, dict) else (name,), sep="\n")' "$1"
}

@test "commands.md: every command and every option of the help" {
    runtime --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | page_names commands.md
    for command in '' $(runtime --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        runtime ${command:+"$command"} --help 2>/dev/null
    done | sed -n 's/^  .\{4\}\(--[a-z0-9-]*\).*/\1/p' | grep -vxE -- '--(help|version)' | sort -u | page_names commands.md
    for command in build list prune save show verify; do
        runtime warm "$command" --help
    done | sed -n 's/^  .\{4\}\(--[a-z0-9-]*\).*/\1/p' | grep -vx -- --help | sort -u | page_names commands.md
}

@test "warm-json.md and runtime-json.md: every key of the files" {
    keys "$TOP/config/warm.json" | page_names warm-json.md
    keys "$TOP/config/runtime.json" | page_names runtime-json.md
}

@test "python-api.md and sessions.md: every public name" {
    sed -n '/^__all__/,/^]/s/^ *"\(.*\)",$/\1/p' "$PACKAGE/__init__.py" | grep -vxE 'ErrorReport|ExecutionError|Violation' |
        page_names python-api.md sessions.md
}

@test "options.md: the table is that of the declarations" {
    expect 0 "$TOP/contrib/docs/options-table" --check
    grep -oE '"--[a-z0-9-]+"' "$PACKAGE/options/keywords.py" | tr -d '"' | sort -u | page_names options.md
}

@test "http-api.md: the name of every problem" {
    sed -n 's/.*Kind("\([a-z0-9-]*\)", [0-9].*/\1/p' "$PACKAGE/service/connections/problems.py" | sort -u | page_names http-api.md
}

@test "profiles.md: every key and every rule" {
    for list in KEYS PATTERNS WORDS STAGES; do
        sed -n "s/^$list = .*[{(]\(.*\)[})].*/\1/p" "$PACKAGE/options/profiles.py" | grep -oE '"[a-z0-9-]+"' | tr -d '"'
    done | sort -u | page_names profiles.md
}

# Print what a reader of a manual page sees.
manual() {
    "$TOP/contrib/docs/man-page" "$1" >page && man -P cat -l page 2>warnings | col -bx
    [[ ! -s warnings ]] || { cat warnings; return 1; }
}

@test "manual pages: made from the reference, with each option of its tables and each line of its examples" {
    for page in 'pysbx.1 pysbx-command' 'profiles.5 profiles' 'warm.json.5 warm-json' 'pysbx-runtime.8 commands' 'pysbx-runtime.8 annotations'; do
        from=$PAGES/${page#* }.md
        text=$(MANWIDTH=200 manual "${page% *}" | tr -s ' \n' '  ')
        [[ $text == *' NAME '*' DESCRIPTION '*' SEE ALSO '* ]]
        # Tables may quote "|" as "\|". The last line is the one that would be lost with the end of a table or a block.
        while read -r line; do
            [[ $text == *" $line"* ]] || { echo "${page% *} lacks $line"; return 1; }
        done < <(sed -nE 's/^\| `([^`]*)`.*/\1/p; /^```/,/^```/{/^```/!s/ *(.*[^ ]) */\1/p}' "$from" | sed 's/\\|/|/g' | tr -s ' ')
    done
    expect 2 "$TOP/contrib/docs/man-page" other.1
}

@test "troubleshooting.md: the error texts of the table are the runtime's" {
    expect 0 python3 - "$TOP" <<'PYTHON'
import pathlib, re, sys
top = pathlib.Path(sys.argv[1])
sources = "".join(path.read_text() for path in sorted((top / "runtime").rglob("*.c")))
sources = re.sub(r'"\s*(?:PRI\w+)?\s*"', "", sources)
page = (top / "contrib/docs/pages/how-to/troubleshooting.md").read_text().partition("## Errors of the runtime")[2]
compared = 0
for cell in re.findall(r"^\| (`.*?) \| ", page, re.MULTILINE):
    for text in re.findall(r"`([^`]*)`", cell):
        # Compare only the words that an example shares with the source, without quoted names, variables, numbers and
        # omissions.
        for part in re.split(r"…|'[^' ]*'|\b[A-Z][A-Z_]*\b|: ", text):
            if len(part.strip()) > 7:
                compared += 1
                if part.strip() not in sources:
                    print(f"{text!r}: the runtime has no {part.strip()!r}")
sys.exit(f"only {compared} parts of texts were found" if compared < 20 else 0)
PYTHON
    [[ -z $output ]]
}
